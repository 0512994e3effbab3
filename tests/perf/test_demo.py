"""What `make demo` and `make demo-gangs` show is worth a look."""

from __future__ import annotations

import pytest

from kscheduler.command.simulate import run
from kscheduler.simulator.options import read_arguments
from tests.simulator.reports import namespace

HOURS = 14  # of the 38: past the first noon, when the cluster is full
DEMO = "perf/demo.yaml"
GANGS = "perf/gangs/workload.yaml"


@pytest.mark.slow
def test_the_demo_has_something_in_every_view() -> None:
    flags = f"--workload {DEMO} --max-time {HOURS * 3600} --decisions 100 --quiet".split()
    report, _ = run(read_arguments(namespace(*flags)))
    assert report.violations == []
    assert len({each.kind for each in report.reasons}) >= 2
    assert len(report.preempted) > 10
    cpu = report.series.used["cpu"]
    assert max(cpu) > 0.6
    assert min(cpu[len(cpu) // 20 :]) < 0.15
    assert report.decisions is not None
    outcomes = {each["outcome"] for pod in report.decisions.pods for each in pod.decisions}
    assert outcomes >= {"bound", "rejected"}


def test_two_trainings_block_each_other_unless_they_are_gangs() -> None:
    default, _ = run(read_arguments(namespace("--workload", GANGS, "--quiet")))
    assert default.gangs is not None
    assert (default.gangs.total, default.gangs.ran, default.gangs.holding) == (2, 0, 2)
    flags = ("--workload", GANGS, "--config", "perf/gangs/coscheduling.yaml", "--quiet")
    together, _ = run(read_arguments(namespace(*flags)))
    assert together.gangs is not None
    assert (together.gangs.ran, together.gangs.holding, together.gangs.idle_pod_s) == (2, 0, 0.0)
    assert together.pods.finished == 24
