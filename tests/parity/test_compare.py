"""How answers are compared: it needs no Go."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parity.compare import _of_decisions, _top_of_heap
from tests.parity.oracle import Decision, PluginScores, Status


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([], ""),
        ([5], "n0"),
        ([5, 5], "n0"),
        ([5, 7], "n1"),
        ([5, 7, 7], "n1"),  # of equal children the left one
        ([1, 2, 2, 3, 3], "n3"),
        ([1, 1, 1, 1, 9], "n4"),
        ([2, 1, 9, 9, 9], "n3"),  # behind n2, but it has come up on the left by then
    ],
)
def test_the_heap_brings_up_one_of_the_best(totals: list[int], expected: str) -> None:
    names = [f"n{i}" for i in range(len(totals))]
    assert _top_of_heap(names, dict(zip(names, totals, strict=True))) == expected


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_the_top_is_as_good_as_any_heaps(totals: list[int]) -> None:
    names = [f"n{i}" for i in range(len(totals))]
    by_name = dict(zip(names, totals, strict=True))
    assert by_name[_top_of_heap(names, by_name)] == heapq.nlargest(1, totals)[0]


def placed(**changes: object) -> Decision:
    """On one of two equal nodes, of three."""
    fields: dict[str, object] = {
        "statuses": {"n2": Status("Unschedulable", "NodePorts", ["taken"])},
        "feasible": ["n0", "n1"],
        "scored": ["n0", "n1"],
        "scores": {"Fit": PluginScores(2, [50, 50], [50, 50])},
        "totals": [100, 100],
        "host": "n0",
        "evaluated": 3,
        "found": ["n0", "n1"],
    }
    return Decision(**{**fields, **changes})  # type: ignore[arg-type]


def reported(theirs: Decision, ours: Decision, *, is_sampled: bool = False) -> list[str]:
    return list(_of_decisions(theirs, ours, is_sampled=is_sampled))


def test_the_other_of_two_equal_nodes_is_no_difference_on_our_side_alone() -> None:
    assert reported(placed(), placed(host="n1")) == []
    assert reported(placed(host="n1"), placed()) == ["the oracle chose n1, its heap would give n0 from our totals"]
    assert reported(placed(host="n1", found=["n1", "n0"]), placed()) == []


def differing() -> Iterator[tuple[Decision, str]]:
    yield placed(evaluated=2), "nodes looked at: expected 3, got 2"
    yield placed(found=["n0", "n2"]), "nodes found: expected ['n0', 'n1'], got ['n0', 'n2']"
    yield placed(scores={"Fit": PluginScores(2, [50, 9], [50, 50])}), "Fit: raw score of node n1: expected 50, got 9"
    yield placed(statuses={}), "node n2: expected Status("
    yield placed(host="n2"), "node: expected one of ['n0', 'n1'], got n2"


@pytest.mark.parametrize(("ours", "expected"), list(differing()))
def test_what_differs_is_told(ours: Decision, expected: str) -> None:
    assert any(text.startswith(expected) for text in reported(placed(), ours)), reported(placed(), ours)


def test_what_a_sampled_search_did_not_look_at_has_no_status() -> None:
    assert reported(placed(), placed(statuses={}, feasible=[]), is_sampled=True) == []
