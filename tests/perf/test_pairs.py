"""Ratios are taken within a round, and above 1 we are ahead."""

from __future__ import annotations

from perf.pairs import OURS, THEIRS, Measure, ratios, table

SPEED: Measure[float] = Measure("pods/s", lambda result: result, True)


def test_more_is_ahead_where_more_is_better() -> None:
    assert ratios([200.0], [100.0], more_is_better=True) == [2.0]


def test_less_is_ahead_where_less_is_better() -> None:
    assert ratios([1.0], [4.0], more_is_better=False) == [4.0]


def test_round_in_which_one_is_nothing_has_no_ratio() -> None:
    assert ratios([0.0, 3.0], [5.0, 1.0], more_is_better=True) == [3.0]


def test_ratio_is_the_median_of_the_rounds_and_not_of_the_medians() -> None:
    rounds = [{OURS: 10.0, THEIRS: 1.0}, {OURS: 40.0, THEIRS: 20.0}, {OURS: 30.0, THEIRS: 10.0}]
    line = table(rounds, [SPEED], "title").splitlines()[-1]
    assert line.split() == ["pods/s", "30.00", "10.00", "3.00", "(2.00", "..", "10.00)"]
