"""Does scheduling slow down when Prometheus dies? One run each on a real control plane: alive, killed, frozen.

    python -m perf.live_metrics                       # three rounds of 500 nodes and 20,000 pods
    python -m perf.live_metrics --rounds 1 --pods 4000

All pods wait when the scheduler starts, which places them by a rule on a real Prometheus' values, with self-load
correction and the fallback Neutral. When half of them are bound Prometheus is killed with SIGKILL (connections are
refused), frozen with SIGSTOP (accepted, and never answered), or left alive for comparison. A second later its values
are too old.

`before` and `after` are pods bound a second in the middle of either half, as a watch sees them; the ratio is taken
within a run, and compared to that of the run of the same round in which nothing happened, since later pods are not
bound as fast as the first. `pause` is the longest time after the middle in which no pod was bound. `stale` are the
nodes whose values were too old in the end. Every pod must be bound, and no node overcommitted.
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

from tests.controlplane.harness import BindWatch, ControlPlane, verify
from tests.controlplane.harness.kscheduler import KScheduler
from tests.controlplane.harness.load import create, nodes, pods
from tests.controlplane.harness.load_exporter import SERIES, LoadExporter
from tests.controlplane.harness.prometheus import Prometheus
from tests.controlplane.harness.workload import node

CORES = 32
MAX_AGE_S = 1.0
SETTLE_S = 0.1  # of each half, the share at its start and its end that is not counted
TIMEOUT_S = 600.0
ALIVE = "alive"
FAULTS: Mapping[str, Callable[[Prometheus], None]] = {
    ALIVE: lambda prometheus: None,
    "killed": Prometheus.kill,
    "frozen": Prometheus.freeze,
}


@dataclass(frozen=True, slots=True)
class Result:
    fault: str
    before_per_s: float
    after_per_s: float
    pause_s: float
    stale: int  # nodes
    problems: tuple[str, ...] = ()

    @property
    def ratio(self) -> float:
        return self.after_per_s / self.before_per_s


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
    with BindWatch(plane.credentials) as watch:
        scheduler = KScheduler(plane, configuration=configuration(prometheus.url))
        watch.wait(pod_count // 2, TIMEOUT_S)
        FAULTS[fault](prometheus)
        happened = time.monotonic()
        watch.wait(pod_count, TIMEOUT_S)
        stale = stale_nodes(scheduler.get("/metrics"))
        times = sorted(watch.times_s())
    problems = verify(plane.api, events=False).problems
    scheduler.stop()
    before, after = halves(times)
    return Result(fault, before, after, longest_pause(times, happened), stale, tuple(problems))


def halves(times: Sequence[float]) -> tuple[float, float]:
    """Pods a second in the middle of either half."""
    middle, edge = len(times) // 2, int(len(times) * SETTLE_S / 2)
    return _rate(times[edge : middle - edge]), _rate(times[middle + edge : len(times) - edge])


def _rate(times: Sequence[float]) -> float:
    return (len(times) - 1) / (times[-1] - times[0])


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
    parser.add_argument("--pods", type=int, default=20_000)
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
    lines = [
        f"{'':8}{'before/s':>10}{'after/s':>9}   {'after / before':22}{'to that of alive':22}{'pause':>8}{'stale':>8}"
    ]
    for fault in rounds[0]:
        found = [each[fault] for each in rounds]
        beside = [each[fault].ratio / each[ALIVE].ratio for each in rounds]
        lines.append(
            f"{fault:8}{statistics.median(each.before_per_s for each in found):10,.0f}"
            f"{statistics.median(each.after_per_s for each in found):9,.0f}"
            f"   {_spread([each.ratio for each in found]):22}{_spread(beside):22}"
            f"{statistics.median(each.pause_s for each in found):6.2f} s"
            f"{statistics.median(each.stale for each in found):8.0f}"
        )
    return "\n".join(lines)


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} .. {max(found):.2f})"


if __name__ == "__main__":
    sys.exit(main())
