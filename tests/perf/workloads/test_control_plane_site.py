"""Tiny workloads on a real control plane: all targets in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.testing.controlplane import ensure
from perf.ratios import BARE, BARE_EVENTS
from perf.results import CPU, FIGURES, LATENCY, THROUGHPUT, read
from perf.workloads.__main__ import main
from perf.workloads.targets import EMBEDDED, OURS, TARGETS, THEIRS

pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture(autouse=True)
def binaries() -> None:
    ensure()


def test_all_targets_run_the_same_workload(tmp_path: Path) -> None:
    names = ["SchedulingCSIPVs", "PreemptionBasic"]
    assert main([*names, "--size", "small", "--rounds", "1", "--output", str(tmp_path)]) == 0
    results = read(tmp_path / "results.json")
    assert not results.facts.partial
    for title in results.titles():
        for target in TARGETS:
            assert results.values(title, target, THROUGHPUT)[0] > 0
            assert results.values(title, target, LATENCY)[0] > 0
            assert results.values(title, target, CPU)[0] >= 0
    evicted = next(figure for figure in FIGURES if figure.metric == "PodsEvicted")
    for target in (EMBEDDED, OURS, THEIRS):
        # kube-scheduler now and then evicts for a pod that a node nominated to another would have taken
        assert results.values("PreemptionBasic/5Nodes", target, evicted)[0] >= 15


@pytest.mark.parametrize("target", [BARE, BARE_EVENTS])
def test_bare_client_binds_pods_as_they_come(target: str, tmp_path: Path) -> None:
    arguments = ["SchedulingBasic", "--size", "small", "--rounds", "1", "--rate", "50", "--targets", target]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    results = read(tmp_path / "results.json")
    title = results.titles()[0]
    asked, answered = (figure for figure in FIGURES if "BindRequest" in figure.metric)
    for figure in (LATENCY, asked, answered):
        assert results.values(title, target, figure)[0] > 0
