"""Configurations are compared by pairs of equal seeds, and by quality beside speed."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import ConfigError
from kscheduler.sweep.comparison import build_report, choose_baseline, on_front, paired_difference
from kscheduler.sweep.metrics import Timing
from kscheduler.sweep.results import Finished, PlanFile, Result, Results
from tests.sweep.grids import finished, run

NUMBERS = st.floats(-1e3, 1e3)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=20))
def test_the_mean_difference_has_the_standard_error_of_the_textbook(pairs: list[tuple[float, float]]) -> None:
    found = paired_difference("t", "c", "a", "placed", pairs)
    differences = [here - there for here, there in pairs]
    assert found.mean == pytest.approx(statistics.fmean(differences), rel=1e-6, abs=1e-6)
    assert found.standard_error == pytest.approx(
        statistics.stdev(differences) / math.sqrt(len(pairs)), rel=1e-6, abs=1e-6
    )
    assert found.wins + found.losses + found.ties == len(pairs)


def test_wins_follow_the_direction_of_the_metric() -> None:
    pairs = [(2.0, 1.0), (3.0, 1.0), (1.0, 1.0)]
    more, less = (paired_difference("t", "c", "a", metric, pairs) for metric in ("placed", "pending-p99"))
    assert (more.wins, more.losses, more.ties) == (2, 0, 1)
    assert (less.wins, less.losses, less.ties) == (0, 2, 1)


def test_one_pair_has_no_standard_error() -> None:
    assert paired_difference("t", "c", "a", "placed", [(2.0, 1.0)]).standard_error is None


def test_pairing_finds_a_difference_that_is_smaller_than_the_spread_of_seeds(tmp_path: Path) -> None:
    source = random.Random(1)
    runs = [run(seed, config) for config in ("base", "better") for seed in range(10)]
    noise = {seed: source.uniform(0, 0.5) for seed in range(10)}
    with Results(str(tmp_path)) as results:
        for each in runs:
            gain = 0.01 + source.uniform(0, 0.002) if each.config == "better" else 0.0
            results.add(finished(each, placed=noise[each.seed] + gain))
        report = build_report(PlanFile("1", ["placed"], "base", runs), results)
    (difference,) = report.differences
    assert (difference.config, difference.pairs, difference.wins) == ("better", 10, 10)
    assert difference.is_clear
    assert report.warnings == []
    assert all(cell.metrics["placed"].deviation or difference.mean < 0 for cell in report.cells)


def test_failed_and_missing_runs_are_counted_and_leave_no_pair(tmp_path: Path) -> None:
    runs = [run(seed, config) for config in ("a", "b") for seed in (1, 2, 3)]
    with Results(str(tmp_path)) as results:
        for each in runs[:4]:
            results.add(finished(each, placed=0.5))
        results.add(Finished(Result.failed(runs[4], "out of memory")))
        report = build_report(PlanFile("1", ["placed", "fragmentation:gpu"], "a", runs), results)
    assert (report.runs, report.finished, report.failed) == (6, 5, 1)
    assert [(cell.config, cell.runs, cell.failed, cell.missing) for cell in report.cells] == [
        ("a", 3, 0, 0),
        ("b", 1, 1, 1),
    ]
    assert [difference.pairs for difference in report.differences] == [1]
    assert [failure.error for failure in report.failures] == ["out of memory"]
    assert "Some differences rest on 1 pair of seeds" in report.warnings[0]
    assert "No run has a figure for fragmentation:gpu." in report.warnings[1]


def test_the_front_has_what_nothing_else_beats_in_both() -> None:
    assert on_front([(1.0, 5.0), (2.0, 4.0), (1.5, 3.0), (2.0, 4.0), (0.0, 6.0)]) == [True, True, False, True, True]


def test_quality_that_is_better_when_less_is_turned_round_on_the_front(tmp_path: Path) -> None:
    runs = [run(1, "slow-good"), run(1, "fast-bad"), run(1, "slow-bad")]
    figures = {"slow-good": (0.1, 10.0), "fast-bad": (0.9, 20.0), "slow-bad": (0.9, 10.0)}
    with Results(str(tmp_path)) as results:
        for each in runs:
            quality, speed = figures[each.config]
            done = finished(each, imbalance__cpu=quality)
            results.add(Finished(done.result, Timing(each.key, 1.0, 1.0, speed, 1.0)))
        report = build_report(PlanFile("1", ["decisions/s", "imbalance:cpu"], "slow-good", runs), results)
    assert report.quality == "imbalance:cpu"
    assert {point.config: point.on_front for point in report.front} == {
        "slow-good": True,
        "fast-bad": True,
        "slow-bad": False,
    }


def test_the_baseline_is_the_first_of_several_configurations_unless_it_is_named() -> None:
    assert choose_baseline("", ["a", "b"]) == "a"
    assert choose_baseline("b", ["a", "b"]) == "b"
    assert choose_baseline("", ["a"]) == ""
    with pytest.raises(ConfigError, match='--baseline: unknown configuration "spred": did you mean "spread"'):
        choose_baseline("spred", ["spread", "packed"])
