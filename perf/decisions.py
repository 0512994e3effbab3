"""Measures how many pods per second a scheduler decides on a cluster in memory, i.e. all of it except the network.

    python -m perf.decisions                              # 5,000 nodes, pods of one class, then of 150 classes mixed
    python -m perf.decisions --nodes 5000 100000 --shapes basic spread
    python -m perf.decisions --lanes compiled general     # pair kernels with plugin by plugin, in turn
    python -m perf.decisions --virtual                    # to be counted, not timed: no clock ends a batch

A class is pods with equal specs. All pods are queued when measuring starts. `decisions/s` is the rate of the scheduling
loop alone: pop a pod from the queue, choose its node, assume it there, start its binding cycle. `placed/s` is the rate
at which pods are bound and seen bound, with everything that runs in this process: the loop, the bindings, the watch,
the Events and the cluster itself. Both are per second of this thread's CPU time. `lag` is how long other work of the
event loop had to wait. It is checked that all pods are bound and no node is overcommitted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, Pod, TopologySpreadConstraint
from kscheduler.clock import Clock, SystemClock
from kscheduler.command.memory import Collections
from kscheduler.config.load import default_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.observability.logs import QUIET, configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.telemetry.source import MakeSource
from kscheduler.testing import PodBuilder, make_node, make_pod

ZONES = 10
TICK_S = 0.001  # the watcher of the event loop sleeps so long
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Result:
    shape: str
    nodes: int
    pods: int
    lane: str
    decisions_per_s: float
    placed_per_s: float
    lag_p99_ms: float
    lag_max_ms: float
    peak_mib: float


# --- pods -------------------------------------------------------------------------------------------------------


def basic(number: int, rng: random.Random) -> PodBuilder:
    return make_pod(f"p{number}").req(cpu="100m", memory="500Mi")


def mixed(number: int, rng: random.Random) -> PodBuilder:
    """150 classes, in random order, as in a trace."""
    kind = rng.randrange(150)
    return make_pod(f"p{number}").req(cpu=f"{10 + kind}m", memory=f"{100 + kind}Mi")


def spread(number: int, rng: random.Random) -> PodBuilder:
    return _spread(basic(number, rng).label(app="web"), "web")


def anti_affinity(number: int, rng: random.Random) -> PodBuilder:
    """Groups of a hundred, of which no two share a host."""
    group = f"g{number % 100}"
    return basic(number, rng).label(app=group).pod_anti_affinity(HOST, {"app": group})


def spread_anti_affinity(number: int, rng: random.Random) -> PodBuilder:
    return _spread(anti_affinity(number, rng), f"g{number % 100}")


def preferred(number: int, rng: random.Random) -> PodBuilder:
    return basic(number, rng).label(app="web").preferred_pod_affinity(1, ZONE, {"app": "web"})


def daemon(number: int, rng: random.Random) -> PodBuilder:
    """One for each node, as a DaemonSet's controller makes them."""
    return basic(number, rng).node_names(f"n{number % 5000}")


def _spread(pod: PodBuilder, app: str) -> PodBuilder:
    """Over zones, never two apart by more than five."""
    made = pod.obj()
    selector = LabelSelector(match_labels={"app": app})
    constraint = TopologySpreadConstraint(
        max_skew=5, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )
    return PodBuilder(replace(made, spec=replace(made.spec, topology_spread_constraints=[constraint])))


SHAPES: dict[str, Callable[[int, random.Random], PodBuilder]] = {
    "basic": basic,
    "mixed": mixed,
    "spread": spread,
    "anti-affinity": anti_affinity,
    "spread+anti": spread_anti_affinity,
    "preferred": preferred,
    "daemon": daemon,
}


# --- one run ----------------------------------------------------------------------------------------------------


async def run(
    shape: str,
    nodes: int,
    pods: int,
    lane: str,
    config: SchedulerConfig | None = None,
    metric_source: MakeSource | None = None,
    *,
    virtual: bool = False,
) -> Result:
    """`config`: of the scheduler, the default one if None; `metric_source` makes what it asks for live metrics.

    `virtual`: the loop is in virtual time, so that the same is done however fast the machine is. In the result, lags
    mean nothing then.
    """
    clock: Clock = LoopClock(asyncio.get_running_loop()) if virtual else SystemClock()
    cluster = Cluster(clock, seed=1, history_limit=10 * pods + 1000)
    for number in range(nodes):
        capacity = {"cpu": "32", "memory": "256Gi", "pods": "110"}
        cluster.create_node(make_node(f"n{number}").capacity(**capacity).label(ZONE, f"z{number % ZONES}").obj())
    rng = random.Random(1)
    made = [SHAPES[shape](number, rng).obj() for number in range(pods)]
    scheduler = Scheduler(
        cluster.client(),
        config or default_config(),
        clock=clock,
        rng=random.Random(1),
        metrics=Metrics(),
        stopwatch=clock.now if virtual else time.perf_counter,
        options=Options(compiled_lane=lane == "compiled"),
        metric_source=metric_source,
    )
    collections = Collections()  # as a replica has it
    collections.start()
    spent = time_decisions(scheduler)
    observing = asyncio.ensure_future(scheduler.observe())
    await scheduler.wait_for_sync()
    for pod in made:
        cluster.create_pod(pod)
    while len(scheduler.queue) < pods:  # noqa: ASYNC110 -- nobody tells
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()
    lags: list[float] = []
    watching = asyncio.ensure_future(_watch_loop(lags))
    started = time.process_time()
    scheduling = asyncio.ensure_future(scheduler.schedule())
    while is_waiting(cluster, scheduler):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    whole = time.process_time() - started
    for task in (watching, scheduling, observing):
        task.cancel()
    await asyncio.gather(watching, scheduling, observing, return_exceptions=True)
    collections.stop()
    _verify(cluster, pods)
    lags.sort()
    return Result(
        shape, nodes, pods, lane,
        decisions_per_s=pods / spent[0],
        placed_per_s=pods / whole,
        lag_p99_ms=1e3 * lags[int(len(lags) * 0.99)],
        lag_max_ms=1e3 * lags[-1],
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )  # fmt: skip


def time_decisions(scheduler: Scheduler) -> list[float]:
    """Count the CPU seconds of the scheduling loop."""
    spent = [0.0]
    decide = scheduler._schedule_slice

    def timed() -> bool:
        started = time.process_time()
        try:
            return decide()
        finally:
            spent[0] += time.process_time() - started

    scheduler._schedule_slice = timed  # type: ignore[method-assign]
    return spent


def is_waiting(cluster: Cluster, scheduler: Scheduler) -> bool:
    """Is there a pod that is not bound, or not seen bound?"""
    sizes = scheduler.cache.sizes()
    return sizes["assumed_pods"] > 0 or sizes["pods"] < len(cluster.pods)


async def _watch_loop(lags: list[float]) -> None:
    while True:
        asked = time.perf_counter()
        await asyncio.sleep(TICK_S)
        lags.append(max(0.0, time.perf_counter() - asked - TICK_S))


def _verify(cluster: Cluster, pods: int) -> None:
    by_node: Counter[str] = Counter(_node_of(pod) for pod in cluster.pods.values())
    if by_node[""] or sum(by_node.values()) != pods:
        raise SystemExit(f"{by_node['']} of {pods} pods were not bound")
    if max(by_node.values()) > 110:
        raise SystemExit("a node has more pods than it allows")


def _node_of(pod: Pod) -> str:
    return pod.spec.node_name


# --- the command ------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.decisions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[5000])
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["basic", "mixed"])
    parser.add_argument("--lanes", nargs="+", choices=("compiled", "general"), default=["compiled"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--virtual", action="store_true", help="for counting: the same on a busy machine")
    parser.add_argument("--output", type=Path, help="write the results of all rounds as JSON")
    options = parser.parse_args(argv)
    configure(verbosity=QUIET)
    rounds: list[Result] = []
    header = f"{'pods':16}{'nodes':>9}{'lane':>10}{'decisions/s':>14}{'placed/s':>12}{'lag p99':>10}{'longest':>10}"
    print(f"{header}{'peak MiB':>10}   medians of {options.rounds}")
    for nodes in options.nodes:
        for shape in options.shapes:
            found: dict[str, list[Result]] = {lane: [] for lane in options.lanes}
            for _ in range(options.rounds):
                for lane in options.lanes:
                    going = run(shape, nodes, options.pods, lane, virtual=options.virtual)
                    found[lane].append(run_virtual(going) if options.virtual else uvloop.run(going))
                    gc.unfreeze()
                    gc.collect()  # the cluster of this round, or the next one's memory would include it
                    gc.collect()
            for lane, results in found.items():
                rounds += results
                print(_line(shape, nodes, lane, results), flush=True)
    if options.output:
        options.output.write_text(json.dumps([asdict(result) for result in rounds], indent=1))
    return 0


def _line(shape: str, nodes: int, lane: str, results: Sequence[Result]) -> str:
    def median(figure: Callable[[Result], float]) -> float:
        return statistics.median(map(figure, results))

    return (
        f"{shape:16}{nodes:9,}{lane:>10}{median(lambda each: each.decisions_per_s):14,.0f}"
        f"{median(lambda each: each.placed_per_s):12,.0f}{median(lambda each: each.lag_p99_ms):8.1f}ms"
        f"{median(lambda each: each.lag_max_ms):8.1f}ms{max(each.peak_mib for each in results):10.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
