"""A simulation whose requests are events of the loop ends as one with a task for each request, as a real client has.

Placements, times, attempts and Events are compared, on the repository's workload and on generated ones: pods that come
alone, together and in bursts, that leave, that wait on a full cluster and push others out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import perf.real_load
from kscheduler.config.load import default_config
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.placements import to_csv
from kscheduler.simulator.real_scheduler import real_scheduler
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from kscheduler.simulator.workload import WorkloadSpec, default_workload, generate
from kscheduler.simulator.workload_file import read_workload


def generated(nodes: int, pods: int, arrival: str, duration: str = "forever") -> WorkloadSpec:
    return default_workload(nodes, pods, arrival, duration, seed=3)


def of_the_repository() -> WorkloadSpec:
    spec = read_workload(str(Path(perf.real_load.__file__).parent / "workload.yaml"))
    return replace(spec, pods=replace(spec.pods, count=500))


WORKLOADS = {
    "all at once": generated(50, 400, "now"),
    "one by one": generated(200, 1_000, "poisson:500"),
    "at equal intervals": generated(50, 300, "constant:200"),
    "in bursts, and gone after a while": generated(50, 600, "bursts:100/2", "exp:5"),
    "more than there is room for": generated(20, 300, "poisson:100", "exp:30"),
    "of the repository": of_the_repository(),
}
LATENCIES = {
    "as by default": Latency(bind_s=0.005, write_s=0.005),
    "none": Latency(),
    # No sums of the arrivals' intervals: what happens at one instant may come in either order.
    "slow": Latency(watch_s=0.02113, bind_s=0.30717, write_s=1.51131),
    "beyond patience": Latency(bind_s=2.5, write_s=0.1),
}


def outcome(spec: WorkloadSpec, latency: Latency, *, by_events: bool) -> Outcome:
    make = real_scheduler(default_config(), Options())
    return simulate_scenario(generate(spec), make, RunSettings(seed=5, latency=latency, by_events=by_events))


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("latency", LATENCIES.values(), ids=LATENCIES)
def test_requests_by_events_end_as_requests_by_tasks(workload: WorkloadSpec, latency: Latency) -> None:
    events, tasks = (outcome(workload, latency, by_events=by_events) for by_events in (True, False))
    assert to_csv(events) == to_csv(tasks)
    assert (events.ending, events.attempts, events.events) == (tasks.ending, tasks.attempts, tasks.events)
    assert events.violations == tasks.violations == []
