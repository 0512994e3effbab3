from __future__ import annotations

from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.fast.tables import GI, NodeSpec, each_raises, make_columns, plain
from tests.support.skips import NOT_BUILT, missing_tool

ROOMY, FULL, DEAD = NodeSpec(), NodeSpec((500, GI, 0)), NodeSpec(alive=False)
POD = plain(10, 0)


class Guest:
    """Says of a row what follows from its pods, and counts the questions."""

    def __init__(self, columns: Any, entry: Callable[[int, int], int], code: str) -> None:
        self.columns, self.entry, self.code = columns, entry, code
        self.asked: list[list[int] | None] = []

    def __call__(self, rows: bytes | None) -> bytes:
        picked = range(self.columns.rows) if rows is None else array("i", rows)
        self.asked.append(None if rows is None else list(picked))
        return array(self.code, [self.entry(row, self.columns.pod_count(row)) for row in picked]).tobytes()


def scores(fast: ModuleType, columns: Any, entry: Callable[[int, int], int], high: int = 100) -> tuple[Any, Guest]:
    guest = Guest(columns, entry, "q")
    return fast.RowAnswers(columns, guest, False, 0, high), guest


def marks(fast: ModuleType, columns: Any, entry: Callable[[int, int], int]) -> tuple[Any, Guest]:
    guest = Guest(columns, entry, "B")
    return fast.RowAnswers(columns, guest, True), guest


def always(entries: bytes) -> Callable[[bytes | None], bytes]:
    return lambda rows: entries


def class_of(fast: ModuleType, columns: Any, *asked: tuple[Any, int]) -> Any:
    made = fast.PodClass(columns, fast.PodRequest(*POD), bytes(3))
    for answers, weight in asked:
        made.ask_rows(answers, weight)
    return made


def place(fast: ModuleType, placer: Any, *classes: Any) -> list[int]:
    rows, feasible = array("i", [-1] * len(classes)), array("i", [0] * len(classes))
    placed, _ = placer.place_many(list(classes), None, rows, feasible)
    return list(rows[:placed])


def test_scores_are_asked_again_where_a_pod_has_come(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 40)
    answers, guest = scores(fast, columns, lambda row, pods: 50 + (row == 7) - 3 * pods)
    placer, pods = fast.Placer(columns, 1 << 20), class_of(fast, columns, (answers, 2))
    assert place(fast, placer, *[pods] * 4) == [7, 0, 1, 2]
    assert guest.asked[0] is None
    if fast.__name__ == "compiled":
        assert guest.asked[1:] == [[7], [0], [1]]


def test_what_several_say_adds_up_and_a_mark_of_one_is_enough(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 4)
    out, _ = marks(fast, columns, lambda row, pods: (row == 0) * 9)
    full, _ = marks(fast, columns, lambda row, pods: pods >= 2)
    one, _ = scores(fast, columns, lambda row, pods: [100, 90, 0, 0][row])
    other, _ = scores(fast, columns, lambda row, pods: [100, 0, 50, 0][row])
    pods = class_of(fast, columns, (out, 0), (full, 0), (one, 1), (other, 2))
    placer = fast.Placer(columns, 1 << 20)
    assert placer.count_feasible(pods) == 3
    assert place(fast, placer, *[pods] * 7) == [2, 2, 1, 1, 3, 3]


def test_scores_that_stay_may_come_from_several(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 3)
    pods = class_of(fast, columns)
    pods.score_rows(bytes([50, 0, 0]), 1)
    pods.score_rows(bytes([0, 30]), 2)
    assert fast.Placer(columns, 1 << 20).place(pods, None) == 1


def test_with_everybody_out_there_is_no_row(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 3)
    pods = class_of(fast, columns, (marks(fast, columns, lambda row, pods: 1)[0], 0))
    placer = fast.Placer(columns, 1 << 20)
    assert (placer.place(pods, None), place(fast, placer, pods)) == (-1, [])


def test_rows_in_doubt_are_asked_about_though_no_number_has_changed(fast: ModuleType) -> None:
    recorded = [1, 2, 3]
    columns = make_columns(fast, [ROOMY] * 3)
    answers, _ = scores(fast, columns, lambda row, pods: recorded[row])
    placer, pods = fast.Placer(columns, 1 << 20), class_of(fast, columns, (answers, 1))
    assert placer.place(pods, None) == 2
    recorded[0] = 9
    assert placer.place(pods, None) == 2
    answers.doubt(array("i", [0]).tobytes())
    assert placer.place(pods, None) == 0
    assert list(answers.entries.cast("B").cast("q")) == [9, 2, 3]
    recorded[1] = 10
    answers.doubt(None)
    assert placer.place(pods, None) == 1


def test_pods_before_one_that_nobody_answers_for_stay(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 3)

    def fail(row: int, pods: int) -> int:
        if columns.pod_count(1) == 2:
            raise LookupError("no answer")
        return 50 * (row == 1)

    pods = class_of(fast, columns, (scores(fast, columns, fail)[0], 1))
    rows, feasible = array("i", [-1] * 4), array("i", [0] * 4)
    with pytest.raises(LookupError, match="no answer"):
        fast.Placer(columns, 1 << 20).place_many([pods] * 4, None, rows, feasible)
    assert (list(rows), columns.pod_count(1)) == ([1, 1, -1, -1], 2)


def test_answers_that_do_not_follow_amounts_are_asked_once(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY] * 3)
    guest = Guest(columns, lambda row, pods: row, "q")
    answers = fast.RowAnswers(columns, guest, False, 0, 100, follows_amounts=False)
    place(fast, fast.Placer(columns, 1 << 20), *[class_of(fast, columns, (answers, 1))] * 5)
    assert guest.asked == [None]


def test_answers_that_are_none_are_refused_and_nothing_is_kept(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY, DEAD, ROOMY])
    recorded: list[bytes] = []
    for is_mark, entries, message in (
        (False, array("q", [1, 999, 101]).tobytes(), r"score of row 2: expected 0\.\.100, got 101"),
        (False, array("q", [-1, 0, 0]).tobytes(), r"score of row 0: expected 0\.\.100, got -1"),
        (False, b"\0" * 23, "expected 24 bytes for 3 rows, got 23"),
        (True, b"\0\0", "expected 3 bytes for 3 rows, got 2"),
    ):
        answers = fast.RowAnswers(columns, always(entries), is_mark, 0, 100)
        each_raises(ValueError, message, answers.refresh, answers.refresh)
        assert len(answers.entries) == 0
    recorded.append(array("q", [1, 999, 3]).tobytes())
    answers = fast.RowAnswers(columns, lambda rows: recorded[-1], False, 0, 100)
    answers.refresh()
    recorded.append(array("q", [1000]).tobytes())
    answers.doubt(array("i", [2]).tobytes())
    each_raises(ValueError, "expected 8 bytes for 1 rows|row 2|expected 24 bytes", answers.refresh, answers.refresh)
    assert list(answers.entries.cast("B").cast("q")) == [1, 0, 3]


def test_a_class_refuses_answers_about_another_table_or_beyond_its_range(fast: ModuleType) -> None:
    columns = make_columns(fast, [ROOMY])
    pods = class_of(fast, columns)
    each_raises(
        ValueError,
        "expected limits within 0..100, got 0..101",
        lambda: pods.ask_rows(scores(fast, columns, lambda row, pods: 0, 101)[0], 1),
    )
    other = scores(fast, make_columns(fast, [ROOMY]), lambda row, pods: 0)[0]
    each_raises(ValueError, "another table", lambda: pods.ask_rows(other, 1))
    assert fast.Placer(columns, 0).place(pods, None) == 0
    each_raises(ValueError, "in use", lambda: pods.ask_rows(scores(fast, columns, lambda row, pods: 0)[0], 1))


steps = st.one_of(
    st.tuples(st.just("many"), st.lists(st.integers(0, 3), min_size=1, max_size=8), st.none() | st.integers(0, 99)),
    st.tuples(st.just("many"), st.lists(st.integers(0, 3), min_size=1, max_size=8), st.none() | st.integers(0, 99)),
    st.tuples(st.just("node"), st.integers(0, 90), st.integers(0, 2)),
    st.tuples(st.just("gone"), st.integers(0, 90)),
    st.tuples(st.just("new"),),
    st.tuples(st.just("mood"), st.integers(0, 90), st.integers(0, 9)),
    st.tuples(st.just("hammer"), st.integers(0, 90)),
)  # fmt: skip


class Run:
    """Classes with marks, with scores, with both of one that does not follow amounts, and with none; two share."""

    def __init__(self, fast: Any, rows: int, max_bytes: int) -> None:
        self.fast = fast
        self.columns = make_columns(fast, [NodeSpec(node_class=row % 3) for row in range(rows)])
        self.mood: dict[int, int] = {}
        self.placer = fast.Placer(self.columns, max_bytes)
        out, _ = marks(fast, self.columns, lambda row, pods: (row + pods) % 5 == 0)
        self.recorded, _ = scores(fast, self.columns, lambda row, pods: (row * 7 + pods * 31 + self._mood(row)) % 101)
        self.still = fast.RowAnswers(
            self.columns, Guest(self.columns, lambda row, _: self._mood(row), "q"), False, 0, 9, follows_amounts=False
        )
        self.classes = [
            class_of(fast, self.columns, (out, 0)),
            class_of(fast, self.columns, (self.recorded, 3)),
            class_of(fast, self.columns, (out, 0), (self.recorded, 1), (self.still, 2)),
            class_of(fast, self.columns),
        ]
        for number, made in enumerate(self.classes):
            made.score_node_classes(array("q", [5, 0, number]), False, 1)

    def _mood(self, row: int) -> int:
        return self.mood.get(row, 0)

    def many(self, order: list[int], first: int | None) -> object:
        rows, feasible = array("i", [-1] * len(order)), array("i", [0] * len(order))
        bits = None if first is None else array("Q", range(first, first + len(order)))
        done = self.placer.place_many([self.classes[each] for each in order], bits, rows, feasible)
        return done, list(rows), list(feasible[: done[0]]), [self.placer.count_feasible(each) for each in self.classes]

    def node(self, row: int, node_class: int) -> None:
        if row < self.columns.rows and self.columns.is_alive(row):
            self.columns.set_node_class(row, node_class)
            self._renew(row)

    def gone(self, row: int) -> None:
        if row < self.columns.rows and self.columns.is_alive(row):
            self.columns.free_row(row)
            self._renew(row)

    def new(self) -> None:
        row = self.columns.add_row()
        self.columns.set_allocatable(row, 0, 1000)
        self.columns.set_allocatable(row, 1, GI)
        self.columns.set_allowed_pods(row, 20)
        self.columns.set_node_class(row, 1)
        self._renew(row)

    def mood_of(self, row: int, mood: int) -> None:
        if row < self.columns.rows:
            self.mood[row] = mood
            self._renew(row)

    def hammer(self, row: int) -> None:
        """More changes than the log holds."""
        if row < self.columns.rows and self.columns.is_alive(row):
            for _ in range(300):
                self.columns.set_allowed_pods(row, 20)

    def _renew(self, row: int) -> None:
        for answers in (self.recorded, self.still):
            answers.doubt(array("i", [row]).tobytes())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 6, 40, 80]), st.lists(steps, max_size=20), st.sampled_from([1 << 30, 0]))
def test_both_forms_place_pods_on_the_same_nodes(rows: int, sequence: list[Any], max_bytes: int) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    runs = [Run(fast, rows, max_bytes) for fast in (reference, compiled)]
    for name, *reported in sequence:
        found = [getattr(run, "mood_of" if name == "mood" else name)(*reported) for run in runs]
        assert found[0] == found[1], (name, reported)
