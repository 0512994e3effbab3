from __future__ import annotations

import random

import pytest

from kscheduler.errors import APIError, Conflict
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultbinder import DefaultBinder
from kscheduler.framework.status import Code
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod

POD = PodInfo(make_pod("p").obj())


def binder(error: Exception | None) -> tuple[DefaultBinder, list[tuple[str, str]]]:
    bound: list[tuple[str, str]] = []

    async def bind(pod: PodInfo, node_name: str) -> None:
        if error is not None:
            raise error
        bound.append((pod.key, node_name))

    return DefaultBinder(Handle(NodeTable(), random.Random(0), bind)), bound


async def test_a_pod_is_bound_to_the_chosen_node() -> None:
    plugin, bound = binder(None)
    assert await plugin.bind(CycleState(), POD, "n1") is None
    assert bound == [("default/p", "n1")]


async def test_what_the_apiserver_answers_is_a_fault_that_keeps_its_kind() -> None:
    error: APIError = Conflict(
        "POST /binding: 409 Conflict: already assigned", status=409, explanation="already assigned"
    )
    plugin, _ = binder(error)
    status = await plugin.bind(CycleState(), POD, "n1")
    assert status is not None
    assert (status.code, status.error) == (Code.ERROR, error)
    assert status.message == "already assigned"


async def test_a_bug_is_not_hidden() -> None:
    plugin, _ = binder(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await plugin.bind(CycleState(), POD, "n1")
