"""Room beside pods that are nominated to nodes: exact cases, and agreement of the two forms."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, codes, make_columns, plain, start
from tests.support.skips import NOT_BUILT, missing_tool

CODE, LAST = 5, 9

Entries = tuple[tuple[int, int], ...]
Pods = list[tuple[str, int, Entries]]


def with_nominated(
    fast: ModuleType,
    nodes: list[NodeSpec],
    nominated_by_node: list[tuple[int, Pods]],
    *,
    here: dict[str, object] | None = None,
    rejected: dict[int, tuple[int, int]] | None = None,
    asks: Entries = ((0, 1000),),
    priority: int = 5,
) -> list[tuple[int, int]]:
    columns = make_columns(fast, nodes)
    verdicts, _ = start(fast, columns)
    for row, (code, detail) in (rejected or {}).items():
        verdicts.reject(row, code, detail)
    request = fast.PodRequest(asks, 0, 0)
    fast.filter_fit(columns, verdicts, request, CODE)
    made = [
        fast.RowNominated(row, here or {}, [(uid, rank, fast.PodRequest(entries, 0, 0)) for uid, rank, entries in pods])
        for row, pods in nominated_by_node
    ]
    fast.filter_with_nominated(columns, verdicts, request, made, priority, "me", CODE, LAST)
    return codes(verdicts)


def test_pods_of_the_same_or_a_higher_priority_keep_their_room(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(2500, 8 * GI))
    fits, lacks = [(fast.FEASIBLE, 0)], [(CODE, 0b10)]
    assert with_nominated(fast, [node], [(0, [("a", 5, ((0, 1500),))])]) == fits
    assert with_nominated(fast, [node], [(0, [("a", 5, ((0, 1501),))])]) == lacks
    assert with_nominated(fast, [node], [(0, [("a", 4, ((0, 1501),))])]) == fits
    assert (
        with_nominated(fast, [node], [(0, [("a", 9, ((0, 800),)), ("b", 5, ((0, 800),)), ("c", 1, ((0, 1),))])])
        == lacks
    )
    assert with_nominated(fast, [node], []) == fits


def test_the_pod_itself_and_those_that_are_there_already_take_nothing(fast: ModuleType) -> None:
    node = NodeSpec(allocatable=(2500, 8 * GI), allowed_pods=1)
    assert with_nominated(fast, [node], [(0, [("me", 5, ((0, 2000),))])]) == [(fast.FEASIBLE, 0)]
    assert with_nominated(fast, [node], [(0, [("a", 5, ((0, 2000),))])], here={"a": 1}) == [(fast.FEASIBLE, 0)]
    assert with_nominated(fast, [node], [(0, [("me", 5, ()), ("a", 5, ())])]) == [(CODE, fast.TOO_MANY_PODS)]


def test_with_nobody_but_itself_expected_the_verdict_on_the_node_stands(fast: ModuleType) -> None:
    full = NodeSpec(allowed_pods=0)
    assert with_nominated(fast, [full], [(0, [("me", 5, ())])], rejected={0: (LAST, 7)}) == [(LAST, 7)]
    assert with_nominated(fast, [full], [(0, [("a", 5, ())])], here={"a": 1}, rejected={0: (LAST, 7)}) == [(LAST, 7)]


def test_details_are_those_beside_the_nominated_pods(fast: ModuleType) -> None:
    full = NodeSpec(allocatable=(1500, GI), pods=(plain(1000, 0),))
    asks = ((0, 1000), (1, GI))
    assert with_nominated(fast, [full], [], asks=asks) == [(CODE, 0b010)]
    assert with_nominated(fast, [full], [(0, [("a", 5, ((1, 1),))])], asks=asks) == [(CODE, 0b110)]
    assert with_nominated(fast, [full], [(0, [("a", 5, ())])], asks=((0, 1600),)) == [(CODE, 0b10 | fast.UNRESOLVABLE)]


def test_only_verdicts_of_later_filters_are_replaced(fast: ModuleType) -> None:
    nodes = [NodeSpec(allocatable=(1000,)) for _ in range(5)] + [NodeSpec(alive=False)]
    pods: Pods = [("a", 5, ((0, 1),))]
    rejected = {0: (CODE - 1, 3), 1: (CODE + 1, 3), 2: (LAST, 3), 3: (LAST + 1, 3)}
    found = with_nominated(fast, nodes, [(row, pods) for row in range(6)], rejected=rejected)
    assert found == [(CODE - 1, 3), (CODE, 2), (CODE, 2), (LAST + 1, 3), (CODE, 2), (fast.NO_NODE, 0)]


def test_amounts_at_the_limits_do_not_wrap_beside_nominated_pods(fast: ModuleType) -> None:
    top = 1 << 62
    pods: Pods = [(str(number), 5, ((0, top),)) for number in range(5)]
    assert with_nominated(fast, [NodeSpec(allocatable=(top,))], [(0, pods)], asks=((0, 1),)) == [(CODE, 0b10)]
    assert with_nominated(fast, [NodeSpec(allocatable=(top,))], [(0, pods)], asks=()) == [(fast.FEASIBLE, 0)]


def test_what_cannot_be_is_refused(fast: ModuleType) -> None:
    with pytest.raises(IndexError, match="row 1 outside"):
        with_nominated(fast, [NodeSpec()], [(1, [])])
    with pytest.raises(ValueError, match="row: expected"):
        fast.RowNominated(-1, {}, [])
    with pytest.raises(ValueError, match="priority: expected"):
        fast.RowNominated(0, {}, [("a", 1 << 31, fast.PodRequest([], 0, 0))])
    columns = make_columns(fast, [NodeSpec()])
    verdicts, _ = start(fast, columns)
    with pytest.raises(ValueError, match="last: expected"):
        fast.filter_with_nominated(columns, verdicts, fast.PodRequest([], 0, 0), [], 0, "me", 4, 3)


amounts = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), max_size=3, unique_by=lambda entry: entry[0])
entries = amounts.map(lambda found: tuple(sorted(found)))
members = st.lists(st.tuples(st.sampled_from(["me", "a", "b", "c"]), st.integers(0, 2), entries), max_size=4)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 4))
    node = st.builds(
        lambda has, allowed, used, alive: NodeSpec(has, allowed, 0, tuple((each, 0, 0) for each in used), alive),
        st.tuples(*[st.integers(0, 9)] * 3),
        st.integers(0, 4),
        st.lists(entries, max_size=2),
        st.booleans(),
    )
    return {
        "nodes": draw(st.lists(node, min_size=count, max_size=count)),
        "nominated_by_node": draw(
            st.lists(st.tuples(st.integers(0, count - 1), members), max_size=4, unique_by=lambda e: e[0])
        ),
        "here": dict.fromkeys(draw(st.sets(st.sampled_from(["a", "b"]))), object()),
        "rejected": draw(
            # Only `filter_fit` itself rejects with CODE, and then with what the node lacks.
            st.dictionaries(
                st.integers(0, count - 1),
                st.tuples(st.integers(1, LAST + 1).filter(lambda code: code != CODE), st.integers(0, 3)),
            )
        ),
        "asks": draw(entries),
        "priority": draw(st.integers(0, 2)),
    }


@given(cases())
def test_both_forms_agree(case: dict[str, Any]) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    assert with_nominated(compiled, **case) == with_nominated(reference, **case)
