"""Measures what quotas cost: the rate at which a backlog is decided without them, with queues with shares, with quotas.

    python -m perf.quota_backlog                          # 10,000 pods on 1,000 nodes, five rounds
    python -m perf.quota_backlog --kinds plain queues --rounds 3 --most 40

The pods and the cluster, which is in memory, are the same each time: pods of 30 teams, in random order. `plain` is the
default profile. `queues` shares the cluster by a tree of queues, three departments of ten teams each, with limits that
are checked and not reached. `quotas` has an ElasticQuota for each team's namespace.

All pods are queued when deciding starts. `taken in` is the rate at which the watch brings them into the queue,
`decided` that of the scheduling loop alone, and `placed` that at which pods are bound and seen bound, with everything
that runs in this process. Rates are per second of CPU time, ratios are taken within a round, each round beginning with
another kind, and printed as median (lowest .. highest). Calls of Python functions for a pod, from its watch event to
the confirmed binding, are counted in a run of their own; the simulated cluster is left out. Batches are sized by CPU
time, so that other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import enum
import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

import uvloop
from msgspec.structs import replace

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, Pod, QuantityMap
from kscheduler.api.share_queues import QueueObject, QueueResource, QueueSpec
from kscheduler.client.kinds import ELASTIC_QUOTAS, SHARE_QUEUES
from kscheduler.clock import SystemClock
from kscheduler.config.load import parse_config
from kscheduler.observability.logs import QUIET, configure
from kscheduler.observability.metrics import Metrics
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.cluster import Cluster
from kscheduler.testing import make_node, make_pod
from perf.counted import name_of
from perf.decisions import is_waiting, time_decisions
from perf.ratios import spread

DEPARTMENTS, TEAMS = 3, 10  # teams of each department
CPU, MEMORY_GI = 32, 256  # of a node
_OTHERS = ("simulator/", "perf/")  # the cluster in memory, and this program


class Kind(enum.StrEnum):
    PLAIN = "plain"
    QUEUES = "queues"
    QUOTAS = "quotas"


_PLUGINS = {
    Kind.PLAIN: "{}",
    Kind.QUEUES: """
    preFilter: {enabled: [{name: Queues}]}
    postFilter: {enabled: [{name: Queues}], disabled: [{name: "*"}]}""",
    Kind.QUOTAS: """
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}""",
}


@dataclass(frozen=True, slots=True)
class Result:
    """Pods a second of CPU time."""

    taken_in: float
    decided: float
    placed: float


class Run:
    """A cluster in memory with a backlog of pods, and its scheduler."""

    def __init__(self, kind: Kind, nodes: int, pods: int) -> None:
        self._pods = pods
        self._cluster = Cluster(SystemClock(), seed=1, history_limit=10 * pods + 1000)
        for number in range(nodes):
            capacity = {"cpu": str(CPU), "memory": f"{MEMORY_GI}Gi", "pods": "110"}
            self._cluster.create_node(make_node(f"n{number}").capacity(**capacity).obj())
        if kind is Kind.QUEUES:
            for queue in _queues(nodes):
                self._cluster.create_object(queue, SHARE_QUEUES)
        elif kind is Kind.QUOTAS:
            for quota in _quotas(nodes):
                self._cluster.create_object(quota, ELASTIC_QUOTAS)
        rng = random.Random(1)
        templates = [_template(team) for team in range(DEPARTMENTS * TEAMS)]
        self._waiting = [_pod(number, rng.choice(templates)) for number in range(pods)]
        self._scheduler = Scheduler(
            self._cluster.client(),
            parse_config(_configuration(kind)),
            clock=SystemClock(),
            rng=random.Random(1),
            metrics=Metrics(),
            stopwatch=time.process_time,
            options=Options(),
        )

    async def measure(self, profile: cProfile.Profile | None = None) -> Result:
        """Decide the backlog. `profile`: enabled from the first watch event to the last confirmed binding."""
        scheduler, cluster = self._scheduler, self._cluster
        spent = time_decisions(scheduler)
        observing = asyncio.ensure_future(scheduler.observe())
        await scheduler.wait_for_sync()
        gc.collect()
        gc.freeze()
        if profile is not None:
            profile.enable()
        for pod in self._waiting:
            cluster.create_pod(pod)
        started = time.process_time()
        while len(scheduler.queue) < self._pods:  # noqa: ASYNC110 -- the queue has no event to wait for
            await asyncio.sleep(0.01)
        queued = time.process_time()
        scheduling = asyncio.ensure_future(scheduler.schedule())
        while is_waiting(cluster, scheduler):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        ended = time.process_time()
        if profile is not None:
            profile.disable()
        for task in (scheduling, observing):
            task.cancel()
        await asyncio.gather(scheduling, observing, return_exceptions=True)
        gc.unfreeze()
        if any(not pod.spec.node_name for pod in cluster.pods.values()) or len(cluster.pods) != self._pods:
            raise RuntimeError("not all pods were bound")
        return Result(self._pods / (queued - started), self._pods / spent[0], self._pods / (ended - queued))


def calls_a_pod(kind: Kind, nodes: int, pods: int) -> dict[str, float]:
    """Return function -> calls a pod. There must be room for all pods."""
    profile = cProfile.Profile(builtins=False)
    uvloop.run(Run(kind, nodes, pods).measure(profile))
    found: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType) and not (name := name_of(entry.code)).startswith(_OTHERS):
            found[name] += entry.callcount
    return {name: calls / pods for name, calls in found.most_common()}


# --- objects ---


def _configuration(kind: Kind) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {_PLUGINS[kind]}
"""


def _template(team: int) -> Pod:
    pod = make_pod("template", f"team-{team}").req(cpu="100m", memory="500Mi")
    return pod.label("kscheduler.io/queue", f"team-{team}").obj()


def _pod(number: int, template: Pod) -> Pod:
    """Return a pod that shares its template's parts, as pods of one text do when they are decoded."""
    metadata = replace(template.metadata, name=f"p{number}", uid=f"uid-{number}")
    return replace(template, metadata=metadata)


def _queues(nodes: int) -> list[QueueObject]:
    """Return queues that are promised three quarters of the cluster together, each of which may use most of it."""
    found: list[QueueObject] = []
    for department in range(DEPARTMENTS):
        above = f"department-{department}"
        found.append(_queue(above, "", nodes, 4))
        teams = range(department * TEAMS, (department + 1) * TEAMS)
        found += [_queue(f"team-{team}", above, nodes, 4 * TEAMS) for team in teams]
    return found


def _queue(name: str, parent: str, nodes: int, part: int) -> QueueObject:
    cpu, memory = nodes * CPU, nodes * MEMORY_GI
    resources = {
        "cpu": QueueResource(f"{1000 * cpu // part}m", f"{cpu}"),
        "memory": QueueResource(f"{1024 * memory // part}Mi", f"{memory}Gi"),
    }
    return QueueObject(ObjectMeta(name=name), QueueSpec(parent, 100, resources))


def _quotas(nodes: int) -> list[ElasticQuota]:
    """Return quotas that guarantee the whole cluster together; each may use all of it."""
    teams = DEPARTMENTS * TEAMS
    whole: QuantityMap = {"cpu": f"{nodes * CPU}", "memory": f"{nodes * MEMORY_GI}Gi", "pods": f"{110 * nodes}"}
    least: QuantityMap = {
        "cpu": f"{1000 * nodes * CPU // teams}m",
        "memory": f"{1024 * nodes * MEMORY_GI // teams}Mi",
        "pods": f"{110 * nodes}",
    }
    most: QuantityMap = {**whole, "ephemeral-storage": "1Ti"}
    return [
        ElasticQuota(ObjectMeta(name="quota", namespace=f"team-{team}"), ElasticQuotaSpec(least, most))
        for team in range(teams)
    ]


# --- the command ---


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.quota_backlog", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", type=Kind, nargs="+", choices=[*Kind], default=[*Kind])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5, help="0: only count calls")
    parser.add_argument("--most", type=int, default=0, help="functions to print, those that differ most from plain")
    options = parser.parse_args(argv)
    configure(verbosity=QUIET)
    kinds: list[Kind] = list(dict.fromkeys([Kind.PLAIN, *options.kinds]))
    found: dict[Kind, list[Result]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        first = number % len(kinds)
        for kind in kinds[first:] + kinds[:first]:
            found[kind].append(uvloop.run(Run(kind, options.nodes, options.pods).measure()))
            gc.collect()  # this run's cluster, or the next run would pay for it
    plain = calls_a_pod(Kind.PLAIN, options.nodes, options.pods)
    print(f"{'':10}{'taken in':>26}{'decided':>26}{'placed':>26}{'calls a pod':>14}")
    for kind in kinds:
        calls = plain if kind is Kind.PLAIN else calls_a_pod(kind, options.nodes, options.pods)
        print(f"{kind:10}{_rates(found[kind])}{sum(calls.values()):14.0f}")
        if kind is not Kind.PLAIN:
            print(f"{'  of plain':10}{_ratios(found[kind], found[Kind.PLAIN])}")
            for name in sorted(calls, key=lambda name: plain.get(name, 0.0) - calls[name])[: options.most]:
                print(f"{calls[name] - plain.get(name, 0.0):10.2f} {name}")
    return 0


def _rates(results: Sequence[Result]) -> str:
    figures = ([each.taken_in, each.decided, each.placed] for each in results)
    return "".join(f"{spread(rates).median:24,.0f}/s" for rates in zip(*figures, strict=True))


def _ratios(results: Sequence[Result], plain: Sequence[Result]) -> str:
    pairs = list(zip(results, plain, strict=True))
    ratios = (
        [each.taken_in / other.taken_in for each, other in pairs],
        [each.decided / other.decided for each, other in pairs],
        [each.placed / other.placed for each, other in pairs],
    )
    return "".join(f"{spread(values)!s:>26}" for values in ratios if values)


if __name__ == "__main__":
    sys.exit(main())
