"""Outcomes by row: what is known stays known until it is forgotten."""

from __future__ import annotations

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
