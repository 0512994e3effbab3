"""The report shows what nodes really used, beside what was requested, wherever that is declared."""

from __future__ import annotations

import pytest

from kscheduler.simulator.report_text import to_text
from kscheduler.simulator.scenario import Scenario
from tests.simulator.loads import arrivals, cluster, play, report_of
from tests.simulator.reports import small


def test_the_report_shows_real_load_beside_requests() -> None:
    scenario = Scenario(cluster(2, 1), arrivals(4, 100.0))
    report = report_of(scenario, play(scenario))
    assert report.real_load is not None
    cpu = report.real_load.resources[0]
    assert cpu.name == "cpu"
    assert cpu.max == 0.75
    # The busy node's 12 of 16 cores; after 100 seconds a core on the other one, with the second pod that uses one.
    assert cpu.mean == pytest.approx((12 + 200 / 300 * 1.005 + 0.01) / 32, abs=0.002)
    assert cpu.requested < 0.02 < cpu.deviation
    assert cpu.over_80_node_s == 0.0
    series = report.real_load.series["cpu"]
    assert len(series.mean) == len(series.over_100) == len(report.real_load.time_s)
    assert "really used" in to_text(report)


def test_real_load_is_reported_where_it_is_declared_and_nowhere_else() -> None:
    without = small()
    assert without.real_load is None
    assert "really used" not in to_text(without)
