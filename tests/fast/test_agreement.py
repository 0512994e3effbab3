"""The compiled kernels and their plain Python twins on random tables: whatever one answers the other must."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.strategies import RESOURCES, allocatable, pods, shapes, tables, weighted
from tests.fast.tables import NodeSpec, codes, make_columns, raws
from tests.support.skips import NOT_BUILT

COMPILED = load_compiled()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(COMPILED is None, reason=NOT_BUILT)]
# No deadline: a busy machine is not a failure.

raw_values = st.one_of(st.integers(-3, 110), st.integers(-(1 << 53), 1 << 53))


class Run:
    """One form of the kernels with a table, some rows of it rejected, and what each step answered."""

    def __init__(self, fast: ModuleType, table: list[NodeSpec], rejected: set[int]) -> None:
        self.fast: Any = fast
        self.columns = make_columns(fast, table, RESOURCES)
        self.verdicts, self.scores = fast.Verdicts(), fast.Scores()
        self.verdicts.reset(self.columns)
        self.scores.reset(self.columns)
        self.verdicts.reject_rows([row for row in sorted(rejected) if row < len(table)], 200, 1)
        self.answers: list[object] = []

    def note(self, answer: object = None) -> None:
        self.answers += [
            answer,
            codes(self.verdicts),
            raws(self.scores),
            [self.scores.total(row) for row in range(self.scores.rows)],
            self.verdicts.histogram(),
            self.verdicts.feasible_rows(),
        ]


def agree(table: list[NodeSpec], rejected: set[int], steps: Callable[[Run], None]) -> None:
    """Run the same steps on both; what they noted must be the same."""
    assert COMPILED is not None
    runs = [Run(fast, table, rejected) for fast in (reference, COMPILED)]
    for run in runs:
        steps(run)
    assert runs[0].answers == runs[1].answers


some_rows = st.sets(st.integers(0, 8), max_size=3)


@given(tables, some_rows, pods)
def test_filters_by_resources_agree(table: list[NodeSpec], rejected: set[int], pod: Any) -> None:
    def steps(run: Run) -> None:
        run.note(run.fast.filter_fit(run.columns, run.verdicts, run.fast.PodRequest(*pod), 3))

    agree(table, rejected, steps)


@given(tables, some_rows, st.binary(min_size=4, max_size=4).map(lambda found: bytes(byte & 0x7F for byte in found)))
def test_answers_by_node_class_agree(table: list[NodeSpec], rejected: set[int], answers: bytes) -> None:
    def steps(run: Run) -> None:
        run.note(run.fast.filter_node_classes(run.columns, run.verdicts, answers, 3))
        run.fast.score_node_classes(run.columns, run.verdicts, run.scores, array("q", [-value for value in answers]))
        run.note()

    agree(table, rejected, steps)


@settings(max_examples=300)
@given(tables, some_rows, pods, weighted, shapes)
def test_scores_of_resources_agree(
    table: list[NodeSpec], rejected: set[int], pod: Any, resources: list[tuple[int, int]], shape: list[tuple[int, int]]
) -> None:
    def steps(run: Run) -> None:
        common = (run.columns, run.verdicts, run.scores, run.fast.PodRequest(*pod))
        run.fast.score_least_allocated(*common, resources)
        run.note()
        run.fast.score_most_allocated(*common, resources)
        run.note()
        run.fast.score_requested_to_capacity_ratio(*common, resources, shape)
        run.note()
        run.fast.score_balanced(*common, [resource for resource, _ in resources])
        run.note(run.fast.accumulate(run.verdicts, run.scores, 7))

    agree(table, rejected, steps)


@given(tables, some_rows, st.lists(raw_values, min_size=9, max_size=9), st.booleans(), st.integers(0, (1 << 52) - 1))
def test_scores_from_outside_agree(
    table: list[NodeSpec], rejected: set[int], values: list[int], reverse: bool, threshold: int
) -> None:
    def steps(run: Run) -> None:
        for row in range(len(table)):
            run.scores.set_raw(row, values[row])
        run.note(run.fast.accumulate(run.verdicts, run.scores, 2))
        run.fast.normalize(run.verdicts, run.scores, reverse)
        run.note(run.fast.accumulate(run.verdicts, run.scores, 3))
        run.fast.clear_raw(run.verdicts, run.scores)
        run.fast.add_to_rows(run.scores, array("i", range(0, len(table), 2)), abs(values[0]))
        run.note()
        run.fast.score_images(run.verdicts, run.scores, threshold, 2 * threshold + 1)
        run.note(run.fast.accumulate(run.verdicts, run.scores, 5))
        run.note(run.fast.best_total(run.verdicts, run.scores))
        run.note(run.fast.select_host(run.verdicts, run.scores, None))
        run.note(run.fast.select_host(run.verdicts, run.scores, threshold))

    agree(table, rejected, steps)


@given(tables, some_rows, some_rows, st.integers(0, 8), st.integers(1, 9))
def test_verdicts_agree(table: list[NodeSpec], rejected: set[int], kept: set[int], first: int, limit: int) -> None:
    def steps(run: Run) -> None:
        start_row = min(first, max(len(table) - 1, 0))
        run.note(run.verdicts.limit_feasible(start_row, limit))
        run.verdicts.keep_only([row for row in kept if row < len(table)], 9, 1 << 62)
        run.note(run.verdicts.rows_with(9, 1 << 62))
        run.note(run.verdicts.feasible_count())

    agree(table, rejected, steps)


changes = st.one_of(
    st.tuples(st.just("add_row")),
    st.tuples(st.just("add_resource")),
    st.tuples(st.just("free_row"), st.integers(0, 5)),
    st.tuples(st.just("set_allocatable"), st.integers(0, 5), st.integers(0, 4), allocatable),
    st.tuples(st.just("set_allowed_pods"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.just("set_node_class"), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(st.sampled_from(["add_pod", "add_pod", "remove_pod"]), st.integers(0, 5), pods),
)


def apply(fast: Any, columns: Any, change: Any) -> object:
    """What a change answers, or how it fails."""
    name, *args = change
    if name in ("add_pod", "remove_pod"):
        args[1] = fast.PodRequest(*args[1])
    try:
        return getattr(columns, name)(*args)
    except (ValueError, IndexError, OverflowError) as error:
        return type(error), str(error)


def content(columns: Any) -> list[object]:
    shape = (columns.rows, columns.alive_count, columns.resource_count, columns.capacity, columns.generation)
    reads = ("non_zero_cpu", "non_zero_memory", "pod_count", "allowed_pods", "node_class", "is_alive")
    cells = [
        (columns.allocatable(row, resource), columns.requested(row, resource))
        for row in range(columns.rows)
        for resource in range(columns.resource_count)
    ]
    return [shape, cells, *[[getattr(columns, name)(row) for row in range(columns.rows)] for name in reads]]


@settings(max_examples=200)
@given(st.lists(changes, max_size=30))
def test_columns_agree_after_every_change(sequence: list[Any]) -> None:
    assert COMPILED is not None
    runs = [(fast, fast.NodeColumns(1)) for fast in (reference, COMPILED)]
    for change in sequence:
        answers = [apply(fast, columns, change) for fast, columns in runs]
        assert answers[0] == answers[1]
        assert content(runs[0][1]) == content(runs[1][1])
