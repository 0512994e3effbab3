"""Measures whether a burst of pods herds onto the least loaded nodes, by several scoring rules.

    python -m perf.herding                                # five seeds, a table
    python -m perf.herding --seeds 1 2 --plot herding.svg # and a plot of the nodes' loads for the first seed

A burst is 1,000 pods between two samples of the load of 100 nodes. Each node already runs something whose requests say
little about what it uses. Pods of the burst use 0.2 to 1 times what they request, 0.6 times on average. All of them
come after one sample of the nodes' loads and are bound before the next. Then the true load of each node is computed:
what all its pods use, as a share of its CPU. The figures, in percent of a node: `deviation` is the standard deviation
over the nodes, `most - mean` is how far the fullest node is above the mean, `over` is how many nodes are asked for more
CPU than they have. Shown are medians over the seeds, with the lowest and the highest.

The complete scheduler runs on a cluster in memory in virtual time, so that a seed gives the same result each time.
Rules by load replace the scores by requests (NodeResourcesFit and NodeResourcesBalancedAllocation), as Trimaran's own
documentation recommends. `TargetLoadPacking, informed` is given the final mean load and what pods use on average. The
last row is the best possible for a scheduler that knows the burst beforehand, and how much pods use on average but not
each; its remaining deviation is chance.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from kscheduler.config.load import parse_config
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.plugins.registry import known_plugins
from kscheduler.observability.logs import QUIET, configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.telemetry.source import Reading, Readings, Sample
from kscheduler.testing import make_node, make_pod
from perf.herding_plot import to_svg

CORES = 16
REQUESTS_MILLI = (500, 1000, 1500)  # of pods of the burst
USED = (0.2, 1.0)  # what they use of it
FACTOR = 0.6  # the mean of that
RESIDENT_REQUEST = (0.1, 0.35)  # of a node
RESIDENT_USED = (0.1, 1.3)  # of the request
SETTLED_S = 121.0  # what was there from the start counts as new to Trimaran for a minute and an interval
STEP_S = 0.01
BURST_LIMIT_S = 5.0  # far below the time between two samples
PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Burst:
    """The nodes' existing loads and the pods of one burst, as shares of a node's CPU."""

    residents: Sequence[tuple[float, float]]  # per node: what its existing pods request, and what they use
    pods: Sequence[tuple[int, float]]  # milli-cores requested, and used

    @classmethod
    def draw(cls, nodes: int, pods: int, seed: int) -> Burst:
        rng = random.Random(seed)
        requested = [rng.uniform(*RESIDENT_REQUEST) for _ in range(nodes)]
        residents = [(request, request * rng.uniform(*RESIDENT_USED)) for request in requested]
        asked = [rng.choice(REQUESTS_MILLI) for _ in range(pods)]
        return cls(residents, [(milli, milli * rng.uniform(*USED)) for milli in asked])

    @property
    def mean_load(self) -> float:
        """When all pods are somewhere."""
        used = sum(milli for _, milli in self.pods) / (1000 * CORES)
        return (sum(used for _, used in self.residents) + used) / len(self.residents)


@dataclass(frozen=True, slots=True)
class Result:
    rule: str
    seed: int
    loads: tuple[float, ...]  # each node's load in percent

    @property
    def deviation(self) -> float:
        return statistics.pstdev(self.loads)

    @property
    def above_mean(self) -> float:
        return max(self.loads) - statistics.fmean(self.loads)

    @property
    def over(self) -> int:
        return sum(load > PERCENT for load in self.loads)


# --- rules ------------------------------------------------------------------------------------------------------


def by_requests(burst: Burst) -> SchedulerConfig:
    return _config({})


def by_load(burst: Burst, **rule: object) -> SchedulerConfig:
    score = {"metric": "cpu", "goal": "Minimize", "range": {"min": 0, "max": 1}, **rule}
    args = {
        "sources": [{"name": "here", "prometheus": {"url": "http://127.0.0.1:9"}, "interval": "60s"}],
        "metrics": [{"name": "cpu", "source": "here", "query": "cpu"}],
        "defaultPolicy": "load",
        "policies": [{"name": "load", "score": [score]}],
    }
    return _by("MetricPolicy", args)


def with_self_load(burst: Burst) -> SchedulerConfig:
    return by_load(burst, selfLoad={"resource": "cpu"})


def with_factor(burst: Burst) -> SchedulerConfig:
    return by_load(burst, selfLoad={"resource": "cpu", "factor": FACTOR})


def target_load_packing(burst: Burst) -> SchedulerConfig:
    return _by("TargetLoadPacking", {"watcherAddress": "http://127.0.0.1:9"})


def target_load_packing_with_requests(burst: Burst) -> SchedulerConfig:
    """With the target where the load will end, and what pods use on the mean."""
    target = max(1, min(99, round(PERCENT * burst.mean_load)))
    args = {"targetUtilization": target, "defaultRequestsMultiplier": str(FACTOR)}
    return _by("TargetLoadPacking", {"watcherAddress": "http://127.0.0.1:9", **args})


def load_variation(burst: Burst) -> SchedulerConfig:
    return _by("LoadVariationRiskBalancing", {"watcherAddress": "http://127.0.0.1:9"})


RULES: Mapping[str, Callable[[Burst], SchedulerConfig]] = {
    "requests only": by_requests,
    "load": by_load,
    "load, self-load": with_self_load,
    f"load, self-load x {FACTOR}": with_factor,
    "TargetLoadPacking": target_load_packing,
    "TargetLoadPacking, informed": target_load_packing_with_requests,
    "LoadVariationRiskBalancing": load_variation,
}
BEST = "best by mean use"


def _by(plugin: str, args: Mapping[str, object]) -> SchedulerConfig:
    """By this plugin in place of the scores that go by requests."""
    requests = [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]
    plugins = {"score": {"disabled": requests}, "multiPoint": {"enabled": [{"name": plugin, "weight": 100}]}}
    return _config({"plugins": plugins, "pluginConfig": [{"name": plugin, "args": args}]})


def _config(profile: Mapping[str, object]) -> SchedulerConfig:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }
    return parse_config(yaml.safe_dump(document), find_plugins=known_plugins)


# --- one run ----------------------------------------------------------------------------------------------------


class Meter:
    """A load source that returns each node's true load at the time of the request."""

    def __init__(self, cluster: Cluster, burst: Burst) -> None:
        self._cluster = cluster
        self._uses = {f"p{number}": used for number, (_, used) in enumerate(burst.pods)}
        self._uses |= {f"r{number}": share * 1000 * CORES for number, (_, share) in enumerate(burst.residents)}
        self.asked = 0

    def loads(self) -> dict[str, float]:
        used = dict.fromkeys(self._cluster.nodes, 0.0)  # node -> milli-cores
        for pod in self._cluster.pods.values():
            if pod.spec.node_name:
                used[pod.spec.node_name] += self._uses[pod.metadata.name]
        return {node: milli / (1000 * CORES) for node, milli in used.items()}

    async def fetch(self, metrics: Sequence[Metric]) -> Readings:
        """A load watcher speaks in percent, and knows of no deviation or memory here."""
        self.asked += 1
        return Readings({metric.name: self._reading(metric) for metric in metrics})

    def _reading(self, metric: Metric) -> Reading:
        if metric.query:
            return Reading({node: Sample(load) for node, load in self.loads().items()})
        if metric.metric == "CPU" and not metric.operator:
            return Reading({node: Sample(PERCENT * load) for node, load in self.loads().items()})
        return Reading(dict.fromkeys(self._cluster.nodes, Sample(0.0)))

    async def close(self) -> None:
        pass


def measure(rule: str, burst: Burst, seed: int) -> Result:
    return Result(rule, seed, tuple(run_virtual(_run(RULES[rule](burst), burst, seed))))


async def _run(config: SchedulerConfig, burst: Burst, seed: int) -> list[float]:
    clock = LoopClock(asyncio.get_running_loop())
    cluster = Cluster(clock, seed=seed, history_limit=20 * len(burst.pods) + 1000)
    for number, (request, _) in enumerate(burst.residents):
        cluster.create_node(make_node(f"n{number}").capacity(cpu=str(CORES), memory="256Gi", pods="250").obj())
        resident = make_pod(f"r{number}").req(cpu=f"{round(1000 * CORES * request)}m").node(f"n{number}")
        cluster.create_pod(resident.obj())
    meter = Meter(cluster, burst)

    def source(config: Source) -> Meter:
        return meter

    scheduler = Scheduler(
        cluster.client(),
        config,
        clock=clock,
        rng=random.Random(seed),
        metrics=Metrics(),
        stopwatch=clock.now,
        metric_source=source,
    )
    tasks = [asyncio.ensure_future(scheduler.observe()), asyncio.ensure_future(scheduler.schedule())]
    try:
        await asyncio.sleep(SETTLED_S)
        await _place(cluster, meter, burst)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [PERCENT * load for load in meter.loads().values()]


async def _place(cluster: Cluster, meter: Meter, burst: Burst) -> None:
    asked = meter.asked
    for number, (milli, _) in enumerate(burst.pods):
        cluster.create_pod(make_pod(f"p{number}").req(cpu=f"{milli}m").obj())
    for _ in range(round(BURST_LIMIT_S / STEP_S)):
        if all(pod.spec.node_name for pod in cluster.pods.values()):
            break
        await asyncio.sleep(STEP_S)
    unbound = sum(not pod.spec.node_name for pod in cluster.pods.values())
    if unbound or meter.asked != asked:
        raise SystemExit(f"{unbound} pods are not bound, {meter.asked - asked} samples came in between: expected none")


def best_by_mean_use(burst: Burst, seed: int) -> Result:
    """Place each pod, the largest first, where the load would be least if all used their mean; see what they do."""
    expected = [used for _, used in burst.residents]
    loads = list(expected)
    for milli, used in sorted(burst.pods, key=lambda pod: -pod[0]):
        least = min(range(len(loads)), key=expected.__getitem__)
        expected[least] += FACTOR * milli / (1000 * CORES)
        loads[least] += used / (1000 * CORES)
    return Result(BEST, seed, tuple(PERCENT * load for load in loads))


# --- the command ------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.herding", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--plot", type=Path, help="write the nodes' loads of the first seed as SVG")
    options = parser.parse_args(argv)
    results: list[Result] = []
    for seed in options.seeds:
        burst = Burst.draw(options.nodes, options.pods, seed)
        results += [measure(rule, burst, seed) for rule in options.rules]
        results.append(best_by_mean_use(burst, seed))
    print(table(results))
    if options.plot:
        title = f"{options.pods:,} pods between two samples, {options.nodes} nodes: true load of each node"
        shown = {result.rule: result.loads for result in results if result.seed == options.seeds[0]}
        options.plot.write_text(to_svg(title, shown))
    return 0


def table(results: Sequence[Result]) -> str:
    by_rule: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_rule[result.rule].append(result)
    seeds = len({result.seed for result in results})
    lines = [
        f"load after a burst, in percent of a node; medians of {seeds} seeds (lowest .. highest)",
        f"{'':28}{'mean':>6}   {'deviation':22}{'most - mean':24}over",
    ]
    for rule, found in by_rule.items():
        mean = statistics.median(statistics.fmean(each.loads) for each in found)
        lines.append(
            f"{rule:28}{mean:6.1f}   {_spread([each.deviation for each in found]):22}"
            f"{_spread([each.above_mean for each in found]):24}{statistics.median(each.over for each in found):4.0f}"
        )
    return "\n".join(lines)


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):5.1f} ({min(found):.1f} .. {max(found):.1f})"


if __name__ == "__main__":
    configure(verbosity=QUIET)
    sys.exit(main())
