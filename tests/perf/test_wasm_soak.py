"""Reloads under load, for some seconds; and what the report says of what went wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from perf.wasm_soak import Report, soak

pytest.importorskip("wasmtime")
pytest.importorskip("ziglang")


@pytest.mark.slow
def test_no_pod_is_lost_and_no_instance_left_over_while_guests_are_replaced() -> None:
    report = soak(20, nodes=50, rate=100, reload_s=0.8)
    assert report.faults == []
    assert report.reloads["replaced"] >= 8
    assert report.reloads["refused"] >= 2
    assert len(report.latencies_s) == report.pods
    assert report.instances[-1] <= 2 * 8  # what two pools keep idle
    assert report.grown_mib < 16


def test_growth_is_judged_once_memory_is_warm() -> None:
    assert Report(resident_mib=[10.0] * 20 + [50.0] * 80).grown_mib == 0.0
    assert Report(resident_mib=[50.0] * 60 + [70.0] * 40).grown_mib == 20.0
    assert Report(resident_mib=[50.0]).grown_mib == 0.0


def test_a_report_names_what_must_not_have_happened() -> None:
    report = Report(
        seconds=60, pods=7, reloads=Counter(replaced=3), resident_mib=[50.0], instances=[2], latencies_s=[0.1],
        faults=["1 of 7 pods were not bound"],
    )  # fmt: skip
    assert report.text().endswith("FAULT: 1 of 7 pods were not bound")
    assert "3 replaced" in report.text()
