"""Measures whether scheduling slows down when Prometheus fails: runs with it alive, killed, and frozen.

    python -m perf.live_metrics                       # three rounds of 500 nodes and 10,000 pods
    python -m perf.live_metrics --rounds 1 --pods 4000

Each run is on a real control plane. All pods are pending when the scheduler starts, which places them by a rule on
values from a real Prometheus, with self-load correction and the fallback Neutral. When half of them are bound,
Prometheus is killed with SIGKILL (connections are refused), frozen with SIGSTOP (accepted, but never answered), or left
alive for comparison. A second later its values are too old.

`before` and `after` are pods bound per second in the middle of each half, as seen by a watch, and the microseconds of
CPU time that the scheduler's process used per pod. Ratios are computed within a run and compared with those of the run
without a failure in the same round, since later pods are always bound more slowly; above 1, the half without Prometheus
is faster. If others use the machine, CPU time is the more reliable figure. `pause` is the longest time after the
failure in which no pod was bound. `stale` is the number of nodes whose values were too old at the end. It is checked
that every pod is bound and no node is overcommitted.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kscheduler.testing.controlplane import BindWatch, ControlPlane, verify
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.load_exporter import SERIES, LoadExporter
from kscheduler.testing.controlplane.prometheus import Prometheus
from kscheduler.testing.controlplane.workload import node

CORES = 32
MAX_AGE_S = 1.0
EDGE = 0.1  # of the pods, at the start and the end of each half, which are not counted
TIMEOUT_S = 600.0
ALIVE = "alive"
FAULTS: Mapping[str, Callable[[Prometheus], None]] = {
    ALIVE: lambda prometheus: None,
    "killed": Prometheus.kill,
    "frozen": Prometheus.freeze,
}


@dataclass(frozen=True, slots=True)
class Half:
    """The measurements in the middle of the first or second half of a run."""

    pods_per_s: float
    cpu_us_per_pod: float


@dataclass(frozen=True, slots=True)
class Result:
    fault: str
    before: Half
    after: Half
    pause_s: float
    stale: int  # number of nodes
    problems: tuple[str, ...] = ()

    @property
    def speed(self) -> float:
        return self.after.pods_per_s / self.before.pods_per_s

    @property
    def thrift(self) -> float:
        return self.before.cpu_us_per_pod / self.after.cpu_us_per_pod


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a run at one time: pods bound, and CPU time used."""

    at: float
    pods: int
    cpu_s: float


# --- one run ----------------------------------------------------------------------------------------------------


def configuration(url: str) -> dict[str, Any]:
    rule = {
        "metric": "cpu",
        "goal": "Minimize",
        "range": {"min": 0, "max": 1},
        "freshness": {"maxAge": f"{MAX_AGE_S:g}s"},
        "selfLoad": {"resource": "cpu"},
    }
    args = {
        "sources": [{"name": "prometheus", "prometheus": {"url": url}, "interval": "500ms", "timeout": "1s"}],
        "metrics": [{"name": "cpu", "source": "prometheus", "query": SERIES}],
        "defaultPolicy": "load",
        "policies": [{"name": "load", "score": [rule]}],
    }
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "MetricPolicy", "weight": 10}]}},
        "pluginConfig": [{"name": "MetricPolicy", "args": args}],
    }
    return {"profiles": [profile]}


def run(fault: str, node_count: int, pod_count: int) -> Result:
    with ControlPlane() as plane, LoadExporter(plane.credentials, cores=CORES) as exporter:
        draw = random.Random(1).random
        exporter.base = {f"node-{number}": 0.5 * draw() for number in range(node_count)}
        template = node(capacity={"cpu": str(CORES), "memory": "256Gi", "pods": "110"})
        create(plane.credentials, nodes(node_count, templates=[template]))
        create(plane.credentials, pods(pod_count))
        prometheus = Prometheus(plane, [exporter.address])
        try:
            return _measure(fault, plane, prometheus, pod_count)
        finally:
            prometheus.close()


def _measure(fault: str, plane: ControlPlane, prometheus: Prometheus, pod_count: int) -> Result:
    middle, edge = pod_count // 2, max(round(pod_count * EDGE), 1)
    with BindWatch(plane.credentials) as watch:
        scheduler = KScheduler(plane, configuration=configuration(prometheus.url))

        def mark(pods: int) -> Mark:
            watch.wait(pods, TIMEOUT_S)
            return Mark(time.monotonic(), watch.count, scheduler.process.usage().cpu_s)

        before = half(mark(edge), mark(middle - edge))
        watch.wait(middle, TIMEOUT_S)
        FAULTS[fault](prometheus)
        happened = time.monotonic()
        after = half(mark(middle + edge), mark(pod_count - edge))
        watch.wait(pod_count, TIMEOUT_S)
        stale = stale_nodes(scheduler.get("/metrics"))
        times = sorted(watch.times_s())
    problems = verify(plane.api, events=False).problems
    scheduler.stop()
    return Result(fault, before, after, longest_pause(times, happened), stale, tuple(problems))


def half(begin: Mark, end: Mark) -> Half:
    pods = end.pods - begin.pods
    return Half(pods / (end.at - begin.at), 1e6 * (end.cpu_s - begin.cpu_s) / pods)


def longest_pause(times: Sequence[float], since: float) -> float:
    later = [at for at in times if at >= since]
    return max((second - first for first, second in pairwise(later)), default=0.0)


def stale_nodes(page: str) -> int:
    """Of a scheduler's own metrics."""
    found = re.findall(r'^kscheduler_metric_nodes\{[^}]*state="stale"[^}]*\} (\S+)', page, re.MULTILINE)
    return round(sum(map(float, found)))


# --- the command ------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.live_metrics", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    rounds: list[dict[str, Result]] = []
    order = list(FAULTS)
    for number in range(options.rounds):
        turn = number % len(order)
        rounds.append({fault: run(fault, options.nodes, options.pods) for fault in order[turn:] + order[:turn]})
    print(f"{options.nodes:,} nodes, {options.pods:,} pods on a real control plane\n{table(rounds)}")
    problems = [f"{each.fault}: {problem}" for one in rounds for each in one.values() for problem in each.problems]
    print(*problems, sep="\n", end="")
    return 1 if problems else 0


def table(rounds: Sequence[Mapping[str, Result]]) -> str:
    """Medians of the rounds; ratios from lowest to highest."""
    head = f"{'':8}{'before/s':>9}{'after/s':>9}   {'to that of alive':21}{'us before':>10}{'us after':>9}"
    lines = [f"{head}   {'to that of alive':21}{'pause':>7}{'stale':>7}"]
    for fault in rounds[0]:
        found = [each[fault] for each in rounds]

        def middle(figure: Callable[[Result], float], found: Sequence[Result] = found) -> float:
            return statistics.median(map(figure, found))

        speeds = [each[fault].speed / each[ALIVE].speed for each in rounds]
        thrifts = [each[fault].thrift / each[ALIVE].thrift for each in rounds]
        lines.append(
            f"{fault:8}{middle(lambda each: each.before.pods_per_s):9,.0f}"
            f"{middle(lambda each: each.after.pods_per_s):9,.0f}   {_spread(speeds):21}"
            f"{middle(lambda each: each.before.cpu_us_per_pod):10,.0f}"
            f"{middle(lambda each: each.after.cpu_us_per_pod):9,.0f}   {_spread(thrifts):21}"
            f"{middle(lambda each: each.pause_s):5.2f} s{middle(lambda each: each.stale):7.0f}"
        )
    return "\n".join(lines)


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} .. {max(found):.2f})"


if __name__ == "__main__":
    sys.exit(main())
