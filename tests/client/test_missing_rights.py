"""Rights that kinds miss are named together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kscheduler.client.kinds import NAMESPACES, NODES, PODS, REPLICA_SETS
from kscheduler.client.missing_rights import AGAIN_S, GATHER_S, MissingRights
from kscheduler.simulator.virtual_time import run_virtual


def logged(scenario: Callable[[MissingRights], Awaitable[None]], caplog: pytest.LogCaptureFixture) -> list[Any]:
    """Run the scenario in virtual time, and return what was logged: the message, and what is needed."""

    async def main() -> None:
        await scenario(MissingRights())

    with caplog.at_level(logging.INFO):
        run_virtual(main())
    return [(record.getMessage(), vars(record).get("needs", "")) for record in caplog.records]


MISSING, ALLOWED = "not allowed to list and watch", "allowed to list and watch again"


def test_kinds_that_are_refused_at_once_share_a_line_by_their_groups(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rights: MissingRights) -> None:
        for kind in (PODS, REPLICA_SETS, NODES, PODS):
            rights.refused(kind.plural, kind, "no")
        await asyncio.sleep(2 * AGAIN_S)

    assert logged(scenario, caplog) == [(MISSING, "list and watch on replicasets in apps/v1; nodes, pods in v1")]


def test_kinds_that_are_refused_later_are_named_with_the_first_in_a_second_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(rights: MissingRights) -> None:
        for kind in (PODS, NODES, NAMESPACES):
            rights.refused(kind.plural, kind, "no")
            await asyncio.sleep(2 * GATHER_S)
        await asyncio.sleep(2 * AGAIN_S)
        for kind in (NODES, PODS, NAMESPACES):
            assert rights.allows(kind.plural)

    assert logged(scenario, caplog) == [
        (MISSING, "list and watch on pods in v1"),
        (MISSING, "list and watch on namespaces, nodes, pods in v1"),
        (ALLOWED, ""),
    ]


def test_a_refusal_of_a_moment_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rights: MissingRights) -> None:
        rights.refused("pods", PODS, "no")
        await asyncio.sleep(GATHER_S / 2)
        assert rights.allows("pods")
        assert not rights.allows("pods")
        await asyncio.sleep(AGAIN_S)

    assert logged(scenario, caplog) == []


def test_a_kind_whose_informer_was_stopped_is_not_named_any_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rights: MissingRights) -> None:
        for kind in (PODS, NODES):
            rights.refused(kind.plural, kind, "no")
        rights.forget("pods")
        await asyncio.sleep(2 * GATHER_S)
        assert rights.allows("nodes")

    assert logged(scenario, caplog) == [(MISSING, "list and watch on nodes in v1"), (ALLOWED, "")]


def test_nothing_is_allowed_again_if_the_last_informer_that_was_refused_is_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(rights: MissingRights) -> None:
        rights.refused("pods", PODS, "no")
        await asyncio.sleep(2 * GATHER_S)
        rights.forget("pods")
        rights.forget("pods")
        rights.refused("nodes", NODES, "no")
        await asyncio.sleep(2 * GATHER_S)
        rights.forget("nodes")
        rights.refused("pods", PODS, "no")
        rights.forget("pods")
        await asyncio.sleep(2 * AGAIN_S)

    assert logged(scenario, caplog) == [
        (MISSING, "list and watch on pods in v1"),
        (MISSING, "list and watch on nodes in v1"),
    ]


def test_rights_that_are_taken_away_again_are_named_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rights: MissingRights) -> None:
        for _ in range(2):
            rights.refused("pods", PODS, "no")
            await asyncio.sleep(2 * GATHER_S)
            rights.allows("pods")

    assert logged(scenario, caplog) == 2 * [(MISSING, "list and watch on pods in v1"), (ALLOWED, "")]
