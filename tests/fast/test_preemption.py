"""Who would have to leave a node: each rule on its own, and both forms on random tables."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import NodeSpec, make_columns
from tests.support.seeds import sampled
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
HIGH = 100

Amounts = tuple[tuple[int, int], ...]  # (resource, amount)
Tally = tuple[int, int, int, list[int], list[int], list[int] | None]


@dataclass(frozen=True)
class There:
    """A pod on a node, or one that is expected there."""

    priority: int
    amounts: Amounts = ()
    kind: int = 0


@dataclass(frozen=True)
class Case:
    """Nodes, each with pods in order of importance, and what a pod wants of them."""

    nodes: Sequence[tuple[Amounts, int, Sequence[There]]]  # (allocatable, pods allowed, pods)
    asked: Amounts = ()
    room_place: int = 1
    tallies: Sequence[Tally] = ()
    may_be_first: bool = False
    weights: Sequence[int] = ()
    counted: Sequence[int] | None = None  # None: everywhere
    nominated_by_node: Sequence[Sequence[There] | None] | None = None
    violating: Sequence[Sequence[int]] | None = None
    rejected: Sequence[tuple[int, int, int]] = ()  # (row, code, detail)


class Run:
    def __init__(self, fast: ModuleType, case: Case) -> None:
        self._fast: Any = fast
        self._case = case
        specs = [
            NodeSpec(
                tuple(dict(allocatable).get(resource, 0) for resource in range(3)),
                allowed,
                pods=tuple((pod.amounts, 0, 0) for pod in pods),
            )
            for allocatable, allowed, pods in case.nodes
        ]
        self.columns = make_columns(fast, specs)
        self.verdicts = self._fast.Verdicts()
        self.verdicts.reset(self.columns)
        for row, code, detail in case.rejected:
            self.verdicts.reject(row, code, detail)
        self.conditions = self._fast.Conditions(
            self.columns,
            HIGH,
            self._fast.PodRequest(case.asked, 0, 0),
            case.room_place,
            [
                (
                    place,
                    detail,
                    missing,
                    array("i", ids),
                    array("q", counts),
                    None if limits is None else array("q", limits),
                )
                for place, detail, missing, ids, counts, limits in case.tallies
            ],
            case.may_be_first,
        )

    def residents(self, pods: Sequence[There]) -> Any:
        request = self._fast.PodRequest
        return self._fast.Residents(pods, [(pod.priority, request(pod.amounts, 0, 0), pod.kind) for pod in pods])

    def laid_out(self) -> tuple[Any, ...]:
        case = self._case
        nominated_by_node = case.nominated_by_node or [None] * len(case.nodes)
        everywhere = [1] * (len(case.nodes) * len(case.tallies))
        return (
            list(range(len(case.nodes))),
            [self.residents(pods) for _, _, pods in case.nodes],
            [None if nominated is None else self.residents(nominated) for nominated in nominated_by_node],
            array("q", case.weights),
            bytes(everywhere if case.counted is None else case.counted),
        )

    def clear(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self._fast.clear_nodes(
            self.columns, self.verdicts, self.conditions, *self.laid_out()
        )
        return found

    def spare(self) -> list[tuple[list[int], list[int]]]:
        marks = self._case.violating or [[0] * len(pods) for _, _, pods in self._case.nodes]
        found: list[tuple[list[int], list[int]]] = self._fast.spare_pods(
            self.columns, self.conditions, *self.laid_out(), bytes(mark for of_node in marks for mark in of_node)
        )
        return found


def pods(*priorities: int, cpu: int = 1) -> list[There]:
    return [There(priority, ((0, cpu),)) for priority in priorities]


CPU4: Amounts = ((0, 4),)


def test_a_node_without_pods_of_lower_priority_has_nobody_to_lose(fast: ModuleType) -> None:
    case = Case([(CPU4, 9, pods(HIGH, HIGH)), (CPU4, 9, [])], asked=((0, 1),))
    assert Run(fast, case).clear() == [(fast.NOBODY, 0), (fast.NOBODY, 0)]


def test_what_is_missing_even_then_is_reported_as_the_filter_reports_it(fast: ModuleType) -> None:
    case = Case([(CPU4, 9, pods(HIGH, 1)), (CPU4, 1, pods(HIGH, 1)), (((0, 2),), 9, pods(1))], asked=((0, 3),))
    assert Run(fast, case).clear() == [(0, 0), (1, fast.TOO_MANY_PODS), (1, 2 | fast.UNRESOLVABLE)]


def test_a_verdict_counts_if_its_place_comes_first(fast: ModuleType) -> None:
    node = CPU4, 9, pods(HIGH, HIGH, 1)
    case = Case([node, node, node], asked=((0, 3),), room_place=2, rejected=[(0, 1, 7), (1, 3, 7)])
    assert Run(fast, case).clear() == [(1, 7), (2, 2), (2, 2)]


def test_a_verdict_counts_where_there_is_room(fast: ModuleType) -> None:
    case = Case([(CPU4, 9, pods(1))], asked=((0, 3),), rejected=[(0, 3, 7)])
    assert Run(fast, case).clear() == [(3, 7)]


def test_the_more_important_come_back_first_while_there_is_room(fast: ModuleType) -> None:
    here = [There(9, ((0, 2),)), There(5, ((0, 1),)), There(5, ((0, 1),)), There(1)]
    assert Run(fast, Case([(CPU4, 9, here)], asked=((0, 2),))).spare() == [([], [1, 2])]
    assert Run(fast, Case([(CPU4, 9, here)], asked=((0, 3),))).spare() == [([], [0, 2])]
    assert Run(fast, Case([(CPU4, 3, here)], asked=((0, 1),))).spare() == [([], [2, 3])]


def test_those_whose_end_violates_a_budget_come_back_before_the_others(fast: ModuleType) -> None:
    node = ((0, 3),), 9, pods(9, 5, 1)
    assert Run(fast, Case([node], asked=((0, 1),), violating=[[0, 0, 1]])).spare() == [([], [1])]
    assert Run(fast, Case([node], asked=((0, 3),), violating=[[0, 1, 1]])).spare() == [([1, 2], [0])]


def test_a_domain_must_not_count_more_than_its_limit(fast: ModuleType) -> None:
    # Both nodes are in one domain, of 3 pods that count; two of the first node's would leave.
    here = [There(HIGH), There(5, kind=1), There(1, kind=1)]
    case = Case([((), 9, here), ((), 9, [There(1)])], tallies=[(2, 7, 0, [0, 0], [3], [2])], weights=[0, 1])
    assert Run(fast, case).clear() == [(0, 0), (2, 7)]
    assert Run(fast, case).spare()[0] == ([], [2])


def test_pods_that_do_not_count_on_a_node_change_nothing(fast: ModuleType) -> None:
    case = Case([((), 9, [There(1, kind=1)])], tallies=[(2, 7, 0, [0], [3], [2])], weights=[0, 1], counted=[0])
    assert Run(fast, case).clear() == [(2, 7)]


def test_a_node_without_a_domain_is_fine_or_not(fast: ModuleType) -> None:
    here = [There(1)]
    for missing, expected in ((0, (0, 0)), (5, (2, 5))):
        case = Case([((), 9, here)], tallies=[(2, 7, missing, [-1], [], [])], weights=[1])
        assert Run(fast, case).clear() == [expected]


def needing(counts: list[int], ids: list[int], *, may_be_first: bool) -> Case:
    here = [There(1, kind=1)]
    tally: Tally = (2, 7, 8, ids, counts, None)
    return Case([((), 9, here)] * len(ids), tallies=[tally], weights=[0, 1], may_be_first=may_be_first)


def test_a_need_is_met_by_others_than_those_that_leave(fast: ModuleType) -> None:
    case = needing([1, 2], [0, 1, -1], may_be_first=False)
    assert Run(fast, case).clear() == [(2, 7), (0, 0), (2, 8)]
    assert Run(fast, needing([2], [0], may_be_first=False)).spare() == [([], [])]


def test_the_first_of_its_kind_is_fine_if_the_last_one_leaves(fast: ModuleType) -> None:
    assert Run(fast, needing([1], [0], may_be_first=True)).clear() == [(0, 0)]
    assert Run(fast, needing([1], [0], may_be_first=False)).clear() == [(2, 7)]
    # There is another one elsewhere.
    assert Run(fast, needing([1, 1], [0, 1], may_be_first=True)).clear() == [(2, 7), (2, 7)]


def test_room_is_left_for_those_that_are_expected(fast: ModuleType) -> None:
    node = CPU4, 9, pods(HIGH, 1)
    nominated_by_node = [[There(HIGH, ((0, 1),))], [There(HIGH, ((0, 2),))], None]
    case = Case([node] * 3, asked=((0, 2),), nominated_by_node=nominated_by_node)
    assert Run(fast, case).clear() == [(0, 0), (1, 2), (0, 0)]
    assert Run(fast, case).spare()[::2] == [([], [1]), ([], [])]


def test_a_need_must_be_met_without_those_that_are_expected(fast: ModuleType) -> None:
    case = Case(
        [((), 9, [There(1)])],
        tallies=[(2, 7, 8, [0], [0], None)],
        weights=[0, 1],
        nominated_by_node=[[There(HIGH, kind=1)]],
    )
    assert Run(fast, case).clear() == [(2, 7)]


def test_a_verdict_comes_before_what_is_only_wrong_without_those_that_are_expected(fast: ModuleType) -> None:
    case = Case(
        [((), 9, [There(1)])],
        tallies=[(2, 7, 8, [0], [0], None)],
        weights=[0, 1],
        nominated_by_node=[[There(HIGH, kind=1)]],
        rejected=[(0, 3, 9)],
    )
    assert Run(fast, case).clear() == [(3, 9)]


def test_residents_know_their_members_by_identity_and_order(fast: ModuleType) -> None:
    one, two = There(1, ((0, 1),)), There(1, ((0, 1),))
    request = fast.PodRequest((), 0, 0)
    here = fast.Residents([one, two], [(1, request, 0), (1, request, 0)])
    assert len(here) == 2
    assert here.are({"a": one, "b": two})
    assert not here.are({"a": two, "b": one})
    assert not here.are({"a": one})
    assert not here.are({"a": one, "b": two, "c": one})
    assert not here.are({"a": one, "b": There(1, ((0, 1),))})


def test_wrong_arguments_are_reported(fast: ModuleType) -> None:
    request = fast.PodRequest((), 0, 0)
    with pytest.raises(ValueError, match="expected falling priorities, got 2 after 1"):
        fast.Residents([], [(1, request, 0), (2, request, 0)])
    with pytest.raises(ValueError, match="kind: expected 0"):
        fast.Residents([], [(1, request, -1)])
    node = CPU4, 9, pods(1)
    tally: Tally = (2, 7, 0, [0], [3], [2])
    with pytest.raises(ValueError, match=r"place: expected 2\.\.200, got 1"):
        Run(fast, Case([node], tallies=[tally, (1, *tally[1:])]))
    with pytest.raises(ValueError, match="tallies without limits: expected them at place 2, got 3"):
        Run(fast, Case([node], tallies=[(2, 7, 0, [0], [3], None), (3, 7, 0, [0], [3], None)]))
    with pytest.raises(ValueError, match="ids: expected at least 1 rows, got 0"):
        Run(fast, Case([node], tallies=[(2, 7, 0, [], [3], [2])]))
    with pytest.raises(ValueError, match="limits: expected 1 domains, got 2"):
        Run(fast, Case([node], tallies=[(2, 7, 0, [0], [3], [2, 2])]))
    with pytest.raises(IndexError, match="row 0 is in domain 1, there are counts for 1"):
        Run(fast, Case([node], tallies=[(2, 7, 0, [1], [3], [2])]))
    with pytest.raises(IndexError, match="kind 0"):
        Run(fast, Case([node], tallies=[tally])).clear()
    with pytest.raises(ValueError, match="counted: expected 1 bytes, got 0"):
        Run(fast, Case([node], tallies=[tally], weights=[1], counted=[])).clear()
    with pytest.raises(ValueError, match="violating: expected 1 bytes, got 0"):
        Run(fast, Case([node], violating=[[]])).spare()
    run = Run(fast, Case([node]))
    with pytest.raises(IndexError, match=r"row 1 outside 0\.\.0"):
        fast.clear_nodes(run.columns, run.verdicts, run.conditions, [1], *run.laid_out()[1:])
    with pytest.raises(ValueError, match="as many residents and nominated_by_node as rows: 0"):
        fast.clear_nodes(run.columns, run.verdicts, run.conditions, [], *run.laid_out()[1:])
    run.columns.add_row()
    with pytest.raises(ValueError, match="conditions are for 1 rows, these columns have 2"):
        fast.spare_pods(run.columns, run.conditions, *run.laid_out(), b"\0")


KINDS = 3
amounts = st.dictionaries(st.integers(0, 2), st.integers(1, 4), max_size=3).map(
    lambda found: tuple(sorted(found.items()))
)
there = st.builds(There, st.integers(HIGH - 3, HIGH + 1), amounts, st.integers(0, KINDS - 1))
by_importance = st.lists(there, max_size=6).map(lambda found: sorted(found, key=lambda pod: -pod.priority))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    full = st.tuples(*[st.integers(0, 12)] * 3).map(lambda found: tuple(enumerate(found)))
    nodes = draw(st.lists(st.tuples(full, st.integers(0, 7), by_importance), min_size=1, max_size=5))
    rows = len(nodes)
    needs = draw(st.integers(0, 2))
    places = sorted([3] * needs + draw(st.lists(st.sampled_from([1, 2, 4, 5]), max_size=3)))
    tallies: list[Tally] = []
    for place in places:
        domains = draw(st.integers(1, 3))
        ids = draw(st.lists(st.integers(-1, domains - 1), min_size=rows, max_size=rows))
        counts = draw(st.lists(st.integers(0, 4), min_size=domains, max_size=domains))
        limits = None if place == 3 else draw(st.lists(st.integers(0, 4), min_size=domains, max_size=domains))
        tallies.append((place, draw(st.integers(1, 5)), draw(st.integers(0, 5)), ids, counts, limits))
    flags = st.integers(0, 1)
    return Case(
        nodes,
        draw(amounts),
        draw(st.integers(0, 6)),
        tallies,
        draw(st.booleans()),
        draw(st.lists(st.integers(0, 2), min_size=KINDS * len(tallies), max_size=KINDS * len(tallies))),
        draw(st.lists(flags, min_size=rows * len(tallies), max_size=rows * len(tallies))),
        [draw(st.none() | by_importance) for _ in nodes],
        [draw(st.lists(flags, min_size=len(pods), max_size=len(pods))) for _, _, pods in nodes],
        [
            (row, draw(st.integers(1, 6)), draw(st.integers(0, 9)))
            for row in range(rows)
            if draw(st.integers(0, 3)) == 0
        ],
    )


@pytest.mark.slow
@pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)
@settings(max_examples=sampled(400), deadline=None)
@given(cases())
def test_both_forms_agree(case: Case) -> None:
    assert COMPILED is not None
    plain, compiled = Run(reference, case), Run(COMPILED, case)
    assert compiled.clear() == plain.clear()
    assert compiled.spare() == plain.spare()
