"""Measures preemption attempts on a full cluster: with simulated removals on copies of nodes, and by the kernels.

    python -m perf.preemption_dry_run                       # 5,000 nodes of 30 pods
    python -m perf.preemption_dry_run --nodes 1000 --attempts 50

Every node is full. Most pods have low priority, some a higher one than all others. Then pods of high priority come,
each with other requests, which fit no node. The whole PostFilter is timed, from the filters' statuses to the chosen
node: `first` is the first attempt, `then` the median of later attempts, before each of which some nodes change. Both
ways must choose the same node and the same victims.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    TopologySpreadConstraint,
)
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.config.types import DefaultPreemptionArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import DryRun, Findings
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle, Plugin, ProfileHandle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.defaultpreemption.dry_run import WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.plugins.defaultpreemption.plugin import DefaultPreemption
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod

PROFILE = "default-scheduler"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES = 3
APPS = 40  # kinds of pods
HIGH = 1_000
CHANGED = 20  # nodes that change between two attempts


class Watched(Evictions):
    """Evictions that are never carried out."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def current(self, key: str) -> Pod | None:
        return self.pods.get(key)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()

    def wall(self) -> float:
        return 1_800_000_000.0


class Timed:
    """A dry run of preemption that records its result."""

    def __init__(self, inner: DryRun) -> None:
        self._inner = inner
        self.found = Findings(0)

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        self.found = self._inner.search(state, pod, nodes, wanted)
        return self.found


class Cluster:
    def __init__(self, nodes: int, pods: int, seed: int) -> None:
        self._rng = random.Random(seed)
        self._pods = pods
        self._serial = 0
        self.cache = Cache()
        self.nominations = Nominations()
        self.budgets = DisruptionBudgets()
        self.evictions = Watched()
        self._profiles: dict[str, ProfileHandle] = {}
        for number in range(nodes):
            node = make_node(f"n{number}").label(HOSTNAME, f"n{number}").label(ZONE, f"z{number % ZONES}")
            self.cache.set_node(node.capacity(cpu=str(pods), memory=f"{2 * pods}Gi", pods=110).obj())
            for position in range(pods):
                self._place(f"n{number}", position)

    def _place(self, node_name: str, position: int) -> None:
        """Three pods of a node are above all; one of the others holds a host port."""
        self._serial += 1
        priority = 10 * HIGH if position < 3 else self._rng.choice((0, 0, 0, 10, 100))
        pod = make_pod(f"p{self._serial}").uid(f"p{self._serial}").node(node_name).priority(priority)
        pod = pod.label(app=f"a{self._rng.randrange(APPS)}", tier=f"t{position % 4}").req(cpu="1", memory="2Gi")
        pod = pod.started(f"2024-01-{self._rng.randint(1, 28):02}T00:00:00Z")
        self.cache.set_pod(PodInfo((pod.host_port(8080) if position == 5 else pod).obj()))

    def change(self) -> None:
        """On some nodes a pod of low priority is replaced."""
        for node in self._rng.sample(list(self.cache.table), min(CHANGED, len(self.cache.table))):
            victim = list(node.pods.values())[-1]
            self.cache.remove_pod(victim.uid)
            self._place(node.name, self._pods)

    def guard(self) -> None:
        for number in range(APPS // 2):
            selector = LabelSelector(match_labels={"app": f"a{number}"})
            meta = ObjectMeta(name=f"b{number}", namespace="default")
            spec = PodDisruptionBudgetSpec(selector)
            self.budgets.set(PodDisruptionBudget(meta, spec, PodDisruptionBudgetStatus(number % 2, {})))

    def nominate(self, share: float = 0.1) -> None:
        """Pods of high priority are expected on this share of the nodes."""
        for number, node in enumerate(self._rng.sample(list(self.cache.table), int(len(self.cache.table) * share))):
            pod = make_pod(f"nominee{number}").uid(f"nominee{number}").priority(HIGH).req(cpu="1")
            self.nominations.nominate(PodInfo(pod.obj()), node.name)

    def clear(self) -> None:
        for number in range(APPS):
            self.budgets.remove("default", f"b{number}")
        for number in range(len(self.cache.table)):
            self.nominations.remove(f"nominee{number}")

    def attempts(self, make: Callable[[Handle], DryRun]) -> Attempts:
        profiles: dict[str, ProfileHandle] = {}
        handle = Handle(
            table=self.cache.table,
            rng=random.Random(1),
            profiles=profiles,
            nominations=self.nominations,
            budgets=self.budgets,
            evictions=self.evictions,
        )
        found = Attempts(self, handle, make(handle))
        profiles[PROFILE] = found.framework
        return found


class Attempts:
    """A cluster on which preemption is attempted in one of the two ways."""

    def __init__(self, cluster: Cluster, handle: Handle, dry_run: DryRun) -> None:
        self._cluster = cluster
        self._dry_run = Timed(dry_run)
        self._handle = handle
        self._plugin = DefaultPreemption(handle, DefaultPreemptionArgs(10, 100), self._dry_run)
        points: dict[str, list[tuple[Plugin, int]]] = build(default_config().profiles[0], handle)
        points.pop("postFilter", None)
        self.framework = Framework(PROFILE, points, handle, observer=Measurements(), stopwatch=lambda: 0.0)

    def run(self, pod: PodBuilder, seed: int) -> tuple[float, object]:
        """CPU seconds, and what was found."""
        info, state = PodInfo(pod.obj()), CycleState()
        self._cluster.evictions.pods[info.key] = info.pod
        rejection = self.framework.schedule_pod(state, info)
        assert isinstance(rejection, Rejection), "expected a pod that fits nowhere"
        statuses = rejection.diagnosis.node_statuses()
        self._handle.rng.seed(seed)
        started = time.thread_time()
        result = self._plugin.post_filter(state, info, statuses)
        took = time.thread_time() - started
        return took, (result, self._dry_run.found.candidates, self._dry_run.found.statuses)


def _preemptor(name: str = "high") -> PodBuilder:
    return make_pod(name).uid(name).priority(HIGH).label(app="a1").req(cpu="3", memory="4Gi")


def _spread() -> PodBuilder:
    pod = _preemptor("spread").obj()
    constraint = TopologySpreadConstraint(1, ZONE, "DoNotSchedule", LabelSelector(match_labels={"app": "a1"}))
    return PodBuilder(replace(pod, spec=replace(pod.spec, topology_spread_constraints=[constraint])))


def _shows(cluster: Cluster) -> dict[str, tuple[Callable[[Cluster], None], Callable[[], PodBuilder]]]:
    """What is in the way -> (how the cluster is prepared, the pod)."""
    nothing = Cluster.clear
    return {
        "room": (nothing, _preemptor),
        "room, in vain": (nothing, lambda: _preemptor("vain").req(cpu=str(cluster._pods - 2))),
        "room, with budgets": (Cluster.guard, _preemptor),
        "room, with nominations": (Cluster.nominate, _preemptor),
        "room, nearly all nominated": (lambda cluster: cluster.nominate(0.96), _preemptor),
        "host port": (nothing, lambda: _preemptor("port").host_port(8080)),
        "spread over zones": (nothing, _spread),
        "anti-affinity": (nothing, lambda: _preemptor("anti").pod_anti_affinity(HOSTNAME, {"tier": "t0"})),
        "anti-affinity, possible": (nothing, lambda: _preemptor("anti2").pod_anti_affinity(HOSTNAME, {"app": "a1"})),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.preemption_dry_run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=30, help="on each node")
    parser.add_argument("--attempts", type=int, default=20, help="of each kind, by the kernels")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    cluster = Cluster(options.nodes, options.pods, options.seed)
    gc.collect()
    gc.freeze()  # as the scheduler does once it is up
    print(f"{'in the way':<26}{'what-ifs':>12}{'first':>12}{'then':>12}{'ratio':>9}{'candidates':>12}")
    for kind, (prepare, make) in _shows(cluster).items():
        cluster.clear()
        prepare(cluster)
        print(_measured(cluster, kind, make, options.attempts), flush=True)
    return 0


def _measured(cluster: Cluster, kind: str, make: Callable[[], PodBuilder], attempts: int) -> str:
    by_what_ifs, by_kernels = cluster.attempts(WhatIfDryRun), cluster.attempts(CompiledDryRun)
    first, found = by_kernels.run(make(), 0)
    slow, expected = by_what_ifs.run(make(), 0)
    if found != expected:
        raise SystemExit(f"{kind}: the kernels chose {found}, what-ifs {expected}")
    then = []
    for attempt in range(attempts):
        cluster.change()
        took, _ = by_kernels.run(make(), attempt)
        then.append(took)
    typical = statistics.median(then)
    candidates = len(by_kernels._dry_run.found.candidates)
    return (
        f"{kind:<26}{slow * 1000:>9.1f} ms{first * 1000:>9.1f} ms{typical * 1000:>9.1f} ms"
        f"{slow / typical:>8.0f}x{candidates:>12}"
    )


if __name__ == "__main__":
    sys.exit(main())
