"""Outcomes by row: what is known stays known until it is forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import NodeColumns
from kscheduler.snapshot.row_outcomes import RowOutcomes


def test_outcomes_are_unknown_until_noted_and_again_when_forgotten() -> None:
    outcomes = RowOutcomes(3, set())
    assert outcomes.unknown == {0, 1, 2}
    outcomes.reject(0)
    outcomes.accept(2, 8)
    assert (outcomes.unknown, list(outcomes.rejected), list(outcomes.scores)) == ({1}, [1, 0, 0], [0, 0, 8])
    outcomes.forget([0, 2])
    assert (outcomes.unknown, list(outcomes.rejected)) == ({0, 1, 2}, [0, 0, 0])


def test_new_rows_are_unknown() -> None:
    outcomes = RowOutcomes(1, set())
    outcomes.accept(0, 1)
    outcomes.grow(3)
    assert outcomes.unknown == {1, 2}
    assert len(outcomes.rejected) == len(outcomes.scores) == 3


def test_a_row_that_is_never_known_keeps_only_its_score() -> None:
    never = {1}
    outcomes = RowOutcomes(2, never)
    outcomes.accept(1, 5)
    assert (outcomes.unknown, outcomes.scores[1]) == ({0, 1}, 5)
    outcomes.reject(1)
    assert (outcomes.unknown, outcomes.rejected[1]) == ({0, 1}, 0)
    never.clear()
    outcomes.reject(1)
    assert (outcomes.unknown, outcomes.rejected[1]) == ({0}, 1)


def test_numbers_decide_all_rows_at_once_except_those_in_doubt() -> None:
    outcomes = RowOutcomes(4, set())
    outcomes.reject(3)
    outcomes.decide(bytes([1, 0, 0, 0]), [2, 3])
    assert (outcomes.unknown, list(outcomes.rejected), list(outcomes.scores)) == ({2}, [1, 0, 0, 1], [0] * 4)
    outcomes.accept(2, 8)
    assert outcomes.scores_differ
    outcomes.forget_all()
    assert (outcomes.unknown, list(outcomes.rejected), outcomes.scores_differ) == (set(range(4)), [0] * 4, False)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("reject"), st.integers(0, 5)),
        st.tuples(st.just("accept"), st.integers(0, 5)),
        st.tuples(st.just("forget"), st.integers(0, 5)),
        st.tuples(st.just("decide"), st.integers(0, 63)),
        st.tuples(st.just("forget all"), st.just(0)),
    ),
    max_size=12,
)


@given(st.lists(steps, min_size=1, max_size=5))
def test_kernels_read_the_outcomes_as_they_are(rounds: list[list[tuple[str, int]]]) -> None:
    columns = NodeColumns()
    for _ in range(6):
        columns.add_row()
    outcomes = RowOutcomes(6, set())
    for taken in rounds:
        for what, value in taken:
            if what == "reject":
                outcomes.reject(value)
            elif what == "accept":
                outcomes.accept(value, value % 2)
            elif what == "forget":
                outcomes.forget([value])
            elif what == "forget all":
                outcomes.forget_all()
            else:
                outcomes.decide(bytes(value >> row & 1 for row in range(6)), [])
        for row in sorted(outcomes.unknown):
            outcomes.reject(row)
        outcomes.state()
        marks = outcomes.marks(columns)
        marks.refresh()
        assert list(marks.entries) == list(outcomes.rejected)
        accepted = {score for score, mark in zip(outcomes.scores, outcomes.rejected, strict=True) if not mark}
        assert outcomes.scores_differ == (len(accepted) > 1)
