"""Figures side by side, and the histogram of pending time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscheduler.compare.figures import BARS, figures, histogram, parameters_that_differ
from kscheduler.simulator.report import Latency, Report
from kscheduler.simulator.scenario import Scenario
from tests.compare.runs import arriving, nodes, simulated, small_pods


def latency(*points: tuple[float, float]) -> Latency:
    return Latency(10, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, list(points))


@pytest.fixture(scope="module")
def report() -> Report:
    return simulated("a", Scenario(nodes(2), arriving(*small_pods(3)))).run().report


def test_bars_are_shares_between_rising_bounds() -> None:
    found = histogram(latency((0.004, 0.5), (0.03, 1.0)), latency((0.004, 0.1), (0.009, 1.0)))
    assert found.bounds_s == [0.005, 0.01, 0.02, 0.05]
    assert found.a == [0.5, 0.0, 0.0, 0.5]
    assert found.b == [0.1, 0.9, 0.0, 0.0]


def test_bars_are_few_however_wide_the_range() -> None:
    wide = latency((0.0, 0.1), (1e-7, 0.2), (5e6, 1.0))
    found = histogram(wide, wide)
    assert len(found.bounds_s) <= BARS
    assert found.bounds_s[-1] >= 5e6
    assert sum(found.a) == pytest.approx(1.0)


def test_without_placed_pods_there_are_no_bars() -> None:
    assert histogram(latency(), latency()).bounds_s == []
    one = histogram(latency((0.0, 1.0)), latency())
    assert (one.a, one.b) == ([1.0], [0.0])


def test_figures_of_both_reports_are_side_by_side(report: Report) -> None:
    other = replace(report, machine=None, attempts={}, resources=[])
    found = {figure.name: figure for figure in figures(report, other)}
    assert (found["placed"].a, found["placed"].b) == (1.0, 1.0)
    assert found["allocated:cpu"].a == report.resources[0].average
    assert found["allocated:cpu"].b is None
    assert found["decisions/s"].is_measured
    assert (found["decisions/s"].b, found["attempts"].b) == (None, None)
    assert "allocated:pods" not in found


def test_a_run_that_placed_no_pod_has_no_pending_time(report: Report) -> None:
    none = replace(report, latency=replace(report.latency, count=0))
    found = {figure.name: figure for figure in figures(none, report)}
    assert found["pending-p99"].a is None
    assert found["pending-p99"].b == report.latency.p99_s


def test_only_parameters_of_both_reports_are_compared(report: Report) -> None:
    a = replace(report, parameters={"seed": "1", "pods": "3", "record": "r"})
    b = replace(report, parameters={"seed": "2", "pods": "3"})
    assert parameters_that_differ(a, b) == [("seed", "1", "2")]
