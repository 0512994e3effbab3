"""Statuses read off the verdicts: node by node, and counted by reason."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kscheduler._fast import Verdicts
from kscheduler.cache.cache import Cache
from kscheduler.framework.status import Code, Status, unresolvable, unschedulable
from kscheduler.framework.verdict_statuses import SameStatus, VerdictStatuses
from kscheduler.testing import make_node

# (code, detail) of a verdict -> what it means
MEANING = {(1, 0): unschedulable("a"), (1, 1): unresolvable("b"), (2, 0): unschedulable("c")}


def statuses(rejected: Mapping[str, tuple[int, int]], alone: Mapping[str, Status] | None = None) -> VerdictStatuses:
    """Of nodes n0 to n5 and one that is gone; those not mentioned fit."""
    cache = Cache()
    for name in ("gone", *(f"n{index}" for index in range(6))):
        cache.set_node(make_node(name).capacity(cpu="1").obj())
    cache.remove_node("gone")
    table, verdicts = cache.table, Verdicts()
    verdicts.reset(table.columns)
    rows = {node.name: node.row for node in table}
    for name, (code, detail) in rejected.items():
        verdicts.reject(rows[name], code, detail)
    by_row = {rows[name]: status for name, status in (alone or {}).items()}
    return VerdictStatuses(table, verdicts, by_row, lambda code, detail: MEANING[code, detail])


CASES = [
    ({}, {}),
    ({"n0": (1, 0), "n1": (1, 1), "n2": (2, 0), "n3": (1, 0)}, {}),
    # A node's status from filtering with nominated pods comes before its verdict.
    ({"n0": (1, 0), "n1": (1, 1), "n2": (9, 9)}, {"n2": unresolvable("with_nominated"), "n0": unschedulable("too")}),
]


@pytest.mark.parametrize(("rejected", "alone"), CASES)
@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING])
def test_nodes_are_counted_and_named_as_one_by_one(
    rejected: dict[str, tuple[int, int]], alone: dict[str, Status], code: Code
) -> None:
    known = statuses(rejected, alone)
    assert set(known) == set(rejected)
    expected = [name for name, status in known.items() if status.code is code]
    assert [node.name for node in known.nodes_with(code)] == expected
    assert sum(nodes for status, nodes in known.counts() if status.code is code) == len(expected)


def test_a_node_that_fits_or_is_gone_has_no_status() -> None:
    known = statuses({"n0": (1, 0)})
    assert known["n0"] == unschedulable("a")
    for name in ("n1", "gone"):
        with pytest.raises(KeyError):
            known[name]


def test_one_status_for_all_nodes_is_a_mapping_of_them() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.set_node(make_node(name).obj())
    status = unschedulable("no claim")
    statuses = SameStatus(cache.table, status)
    assert dict(statuses) == {"a": status, "b": status}
    assert "c" not in statuses
    assert list(statuses.counts()) == [(status, 2)]
    assert [node.name for node in statuses.nodes_with(Code.UNSCHEDULABLE)] == ["a", "b"]
    assert statuses.nodes_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == []


def test_a_node_that_came_after_the_search_has_no_status() -> None:
    cache, verdicts = Cache(), Verdicts()
    cache.set_node(make_node("known").capacity(cpu="1").obj())
    verdicts.reset(cache.table.columns)
    known = VerdictStatuses(cache.table, verdicts, {}, lambda code, detail: MEANING[code, detail])
    for number in range(100):
        cache.set_node(make_node(f"new{number}").capacity(cpu="1").obj())
    assert "new99" not in known
    assert not list(known)
