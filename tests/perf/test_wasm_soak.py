"""Reloads under load, for some seconds; and what the report says of what went wrong."""

from __future__ import annotations

import pytest

from kscheduler.wasm.pool import MAX_IDLE
from perf.wasm_soak import PLUGINS, Report, soak
from tests.support.skips import package

package("wasmtime")
package("ziglang")


@pytest.mark.slow
def test_no_pod_is_lost_and_no_instance_left_over_while_guests_are_replaced() -> None:
    report = soak(30, nodes=50, rate=100, reload_s=0.8)
    assert report.faults == []
    assert report.reloads["replaced"] >= 8
    assert report.reloads["refused"] >= 2
    assert len(report.latencies_s) == report.pods
    assert report.instances[-1] <= len(PLUGINS) * MAX_IDLE  # what a pool for each guest keeps idle
    report.judge_growth(24.0)  # while some 35 guests are replaced, of which each has a megabyte or more
    assert report.faults == []


def test_growth_is_judged_once_memory_is_warm() -> None:
    assert Report(resident_mib=[10.0] * 20 + [50.0] * 80).grown_mib == 0.0
    assert Report(resident_mib=[50.0] * 60 + [70.0] * 40).grown_mib == 20.0
    assert Report(resident_mib=[50.0]).grown_mib == 0.0


def test_threads_and_descriptors_that_are_left_over_are_a_fault() -> None:
    report = Report(resident_mib=[50.0] * 10, threads=[*range(3, 13)], descriptors=[*range(10, 20)])
    report.judge_growth(16.0)
    assert report.faults == ["file descriptors: from 15 to 16"]
    report = Report(
        resident_mib=[50.0] * 10, threads=[*range(0, 100, 10)], descriptors=[9, 12, 9, 12, 9, 12, 9, 12, 9, 12]
    )
    report.judge_growth(16.0)
    assert report.faults == ["threads: from 50 to 60"]


def test_slopes_leave_the_warming_up_out() -> None:
    report = Report()
    assert report.slope([0, 100, 100, 100, 100]) == 0.0
    assert report.slope([50, *range(9)]) == pytest.approx(120.0)  # one a sample, of which two are a second
    assert report.slope([1]) == 0.0
