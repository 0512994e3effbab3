"""How answers are compared: it needs no Go."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parity.compare import _hangs_on_the_start, _of_decisions, _top_of_heap
from tests.parity.oracle import Allocated, Decision, PluginScores, Status


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
def test_what_differs_is_reported(ours: Decision, expected: str) -> None:
    assert any(text.startswith(expected) for text in reported(placed(), ours)), reported(placed(), ours)


def test_what_a_sampled_search_did_not_look_at_has_no_status() -> None:
    assert reported(placed(), placed(statuses={}, feasible=[]), is_sampled=True) == []


# --- devices ---

DEVICE = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d0"}
FAULT = 'running "DynamicResources" filter plugin: claim default/c: selector #0: '


def with_devices(*results: dict[str, str], **changes: Any) -> Decision:
    """Placed on n0 or n1, with these devices on n0."""
    allocated = Allocated([{"devices": {"results": list(results)}}], **changes)
    return placed(allocations={"n0": allocated})


def test_the_same_devices_are_no_difference_whatever_ids_their_shares_have() -> None:
    theirs, ours = (with_devices({**DEVICE, "shareID": drawn}) for drawn in ("one", "other"))
    assert reported(theirs, ours) == []


@pytest.mark.parametrize(
    ("ours", "part"),
    [
        (with_devices({**DEVICE, "device": "d1"}), "devices"),
        (with_devices(DEVICE, DEVICE), "devices"),
        (with_devices({**DEVICE, "shareID": "one"}), "results"),
        (with_devices(DEVICE, requests=[{"name": "container-0-request-0"}]), "requests"),
        (with_devices(DEVICE, mappings=[{"containerName": "c"}]), "mappings"),
        (placed(allocations={}), "allocations"),
        (placed(allocations={"n0": Allocated([])}), "allocations"),
    ],
)
def test_other_devices_on_a_node_that_fits_are_a_difference(ours: Decision, part: str) -> None:
    assert reported(with_devices(DEVICE), ours)[0].startswith(f"{part}: ")


def test_devices_on_nodes_that_were_not_looked_at_are_not_compared() -> None:
    assert reported(with_devices(DEVICE), placed(), is_sampled=True) == []


def failed(text: str) -> Decision:
    return Decision(failure=FAULT + text)


def test_the_text_of_a_fault_of_devices_is_compared_while_searches_begin_at_the_first_node() -> None:
    theirs, ours = failed("no such key: a"), failed("no such key: b")
    assert [text.partition(":")[0] for text in _of_decisions(theirs, ours)] == ["fault of devices"]
    assert list(_of_decisions(theirs, ours, has_moved=True)) == []
    assert list(_of_decisions(theirs, placed(), has_moved=True)) != []


def test_of_a_syntax_error_only_the_place_is_compared() -> None:
    where = "CEL compile error: <input>:1:17: Syntax error: "
    assert list(_of_decisions(failed(f"{where}expecting {{A, B}}"), failed(f"{where}expecting {{A, ...}}"))) == []


def test_where_the_search_begins_has_a_say_if_the_scheduler_finds_other_nodes_than_a_search_from_the_first() -> None:
    assert not _hangs_on_the_start(placed(found=["n1", "n0"]))
    assert _hangs_on_the_start(placed(found=["n0", "n1", "n2"]))
    assert not _hangs_on_the_start(failed("no such key: a"))
