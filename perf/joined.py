"""Measures deciding about pods that depend on other pods: topology spread and pod (anti-)affinity.

    python -m perf.joined                              # 500 and 5,000 nodes, every kind of pod
    python -m perf.joined --nodes 5000 --kinds "hard, zones" --pods 2000

The same pods go through the general lane (plugin by plugin) and the compiled lane (kernels), in turns of 50, each on a
cluster of its own with the same history; both must choose the same nodes. The decision, and counting the pod on its
node, are timed separately. Figures are microseconds of CPU time, medians over turns.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, TopologySpreadConstraint
from kscheduler.cache.cache import Cache
from kscheduler.config.load import default_config
from kscheduler.framework.compiled_lane import NO_PLACEMENTS, CompiledLane
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node, make_pod

PROFILE = "default-scheduler"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SIZES = (500, 5_000)
ZONES = 3
GROUPS = 20  # of pods that look at each other
TURN = 50  # pods


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="perf.joined", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, action="append", help="instead of 500 and 5,000")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--pods", type=int, default=500, help="of each kind, in each lane")
    options = parser.parse_args(argv)
    print(f"{'nodes':>7}  {'kind of pod':<34}{'general':>10}{'compiled':>10}{'ratio':>8}{'counting':>10}   (us a pod)")
    for nodes in options.nodes or SIZES:
        for kind in options.kinds:
            print(measured(nodes, kind, options.pods), flush=True)
    return 0


# --- pods -------------------------------------------------------------------------------------------------------


def _pod(number: int) -> PodBuilder:
    return make_pod(f"p{number}").label(app=_group(number)).req(cpu="100m", memory="200Mi")


def _group(number: int) -> str:
    return f"g{number % GROUPS}"


def _spread(number: int, *constraints: tuple[int, str, str], pod: PodBuilder | None = None) -> PodBuilder:
    made = (pod or _pod(number)).obj()
    selector = LabelSelector(match_labels={"app": _group(number)})
    stated = [TopologySpreadConstraint(skew, key, when, selector) for skew, key, when in constraints]
    return PodBuilder(replace(made, spec=replace(made.spec, topology_spread_constraints=stated)))


def _near(number: int) -> dict[str, str]:
    return {"app": _group(number)}


def _anti_affine(number: int) -> PodBuilder:
    return _pod(number).pod_anti_affinity(HOST, _near(number))


def _preferring(number: int) -> PodBuilder:
    pod = _pod(number).preferred_pod_affinity(10, ZONE, _near(number))
    return pod.preferred_pod_anti_affinity(50, HOST, _near(number))


KINDS: dict[str, Callable[[int], PodBuilder]] = {
    "plain": _pod,
    "hard, zones": lambda number: _spread(number, (1, ZONE, HARD)),
    "hard, hosts": lambda number: _spread(number, (1, HOST, HARD)),
    "soft, zones and hosts": lambda number: _spread(number, (3, HOST, SOFT), (5, ZONE, SOFT)),
    "anti-affinity, hosts": _anti_affine,
    "affinity, zones": lambda number: _pod(number).pod_affinity(ZONE, _near(number)),
    "preferred affinity, both": _preferring,
    "hard, zones, and anti-affinity": lambda number: _spread(number, (1, ZONE, HARD), pod=_anti_affine(number)),
}


# --- two clusters with the same past ----------------------------------------------------------------------------


class Lane:
    """A cluster on which pods are decided by one of the two lanes: by kernels, or plugin by plugin."""

    def __init__(self, nodes: int, *, compiled: bool) -> None:
        self.cache = Cache()
        rng = random.Random(7)
        for number in range(nodes):
            node = make_node(f"n{number}").label(HOST, f"n{number}").label(ZONE, f"z{number % ZONES}")
            self.cache.set_node(node.capacity(cpu="32", memory="64Gi", pods=110).obj())
        for number in range(2 * nodes):  # of other applications
            pod = make_pod(f"old{number}").label(app=f"old{rng.randrange(50)}").node(f"n{rng.randrange(nodes)}")
            self.cache.set_pod(PodInfo(pod.req(cpu=f"{rng.randrange(1, 40) * 50}m", memory="1Gi").obj()))
        self._handle = Handle(
            table=self.cache.table,
            rng=random.Random(1),
            nominations=Nominations(),
            budgets=DisruptionBudgets(),
        )
        points: dict[str, list[tuple[Plugin, int]]] = build(default_config().profiles[0], self._handle)
        points.pop("postFilter", None)
        self._framework = Framework(PROFILE, points, self._handle, observer=Measurements(), stopwatch=lambda: 0.0)
        profiles = {PROFILE: self._framework}
        self._lane = CompiledLane(profiles, self._handle, Measurements(), lambda: 0.0) if compiled else None
        self.chosen: list[str] = []
        self.by_core = 0  # pods
        self._counted = False  # has the core counted the pod's amounts?

    def run(self, pods: Sequence[PodInfo]) -> tuple[float, float]:
        """Microseconds a pod, for deciding and for counting it."""
        deciding = counting = 0.0
        for pod in pods:
            started = time.thread_time()
            found = self._decide(pod)
            decided = time.thread_time()
            self.chosen.append(found)
            node = self.cache.table.get(found)
            assert node is not None
            began = time.thread_time()
            if self._counted:
                self.cache.table.add_counted_pods((node.row,), (pod,))
            else:
                self.cache.table.add_pod(node, pod)
            counting += time.thread_time() - began
            deciding += decided - started
        return deciding / len(pods) * 1e6, counting / len(pods) * 1e6

    def _decide(self, pod: PodInfo) -> str:
        placements = NO_PLACEMENTS if self._lane is None else self._lane.place([pod])
        self._counted = bool(placements)
        if placements:
            self.by_core += 1
            return placements.node_names[0]
        found = self._framework.schedule_pod(CycleState(), pod)
        assert isinstance(found, Decision), found
        return found.node_name


def measured(nodes: int, kind: str, pods: int) -> str:
    general, compiled = Lane(nodes, compiled=False), Lane(nodes, compiled=True)
    made = [PodInfo(KINDS[kind](number).obj()) for number in range(pods)]
    gc.collect()
    gc.freeze()
    turns: list[tuple[float, float, float]] = []
    for start in range(0, pods, TURN):
        some = made[start : start + TURN]
        slow, _ = general.run(some)
        fast, counting = compiled.run(some)
        turns.append((slow, fast, counting))
    gc.unfreeze()
    if general.chosen != compiled.chosen:
        raise SystemExit(f"{kind}: the lanes chose different nodes")
    if compiled.by_core < pods:
        print(f"{kind}: {pods - compiled.by_core} of {pods} pods were not decided by the core", file=sys.stderr)
    slow, fast, counting = (statistics.median(each) for each in zip(*turns[1:], strict=True))
    return f"{nodes:>7,}  {kind:<34}{slow:>10.1f}{fast:>10.1f}{slow / fast:>7.1f}x{counting:>10.1f}"


if __name__ == "__main__":
    sys.exit(main())
