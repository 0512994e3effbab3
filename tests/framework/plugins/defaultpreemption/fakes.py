"""A profile that fits by resources and preempts, on a table of its own, and a cluster that only takes notes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kscheduler.api.objects import (
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kscheduler.cache.cache import Cache
from kscheduler.client.concurrency import run_together
from kscheduler.config.releases import RELEASE_1_36, Release
from kscheduler.config.types import DefaultPreemptionArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle, Plugin, PostFilterPlugin, PostFilterResult, ProfileHandle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.defaultpreemption.dry_run import WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.plugin import DefaultPreemption
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status, unschedulable
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_node

NOW = 1_800_000_000.0
PROFILE = "default-scheduler"


def budget(
    name: str,
    allowed: int,
    labels: Mapping[str, str] | None,
    *,
    namespace: str = "default",
    disrupted: tuple[str, ...] = (),
) -> PodDisruptionBudget:
    selector = None if labels is None else LabelSelector(match_labels=dict(labels))
    status = PodDisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2024-01-01T00:00:00Z"))
    return PodDisruptionBudget(ObjectMeta(name=name, namespace=namespace), PodDisruptionBudgetSpec(selector), status)


class NotedEvictions(Evictions):
    """`log` has what was asked for, in order; `refuse` maps a victim's name to the error its deletion meets."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}  # namespace/name -> pod that the watch shows
        self.in_memory: set[str] = set()  # uids of pods whose binding can be stopped
        self.gone: set[str] = set()  # keys of pods that the apiserver does not have any more
        self.refuse: dict[str, Exception] = {}
        self.conditions: dict[str, PodCondition] = {}  # key of a victim -> what was written
        self.log: list[str] = []
        self.notes: list[str] = []
        self.tried_again: list[str] = []
        self.measured: list[tuple[str, object]] = []
        self.work: list[Coroutine[Any, Any, None]] = []
        self.hold: asyncio.Event | None = None  # deletions wait for it
        self.lag_s: float = 0.0  # from a deletion to the watch that shows it
        self.look_s = 0.5
        self.now = NOW

    def current(self, key: str) -> Pod | None:
        return self.pods.get(key)

    def stop_binding(self, uid: str, plugin: str) -> bool:
        if uid in self.in_memory:
            self.log.append(f"stop {uid} for {plugin}")
        return uid in self.in_memory

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        self.log.append(f"mark {victim.metadata.name}")
        self.conditions[victim.key] = condition
        return victim.key not in self.gone

    async def delete(self, victim: Pod) -> bool:
        name = victim.metadata.name
        self.log.append(f"delete {name}")
        if self.hold is not None:
            await self.hold.wait()
        if name in self.refuse:
            raise self.refuse[name]
        self.log.append(f"deleted {name}")
        if victim.key in self.gone:
            return False
        if self.lag_s:
            asyncio.get_running_loop().call_later(self.lag_s, self.pods.pop, victim.key, None)
        else:
            self.pods.pop(victim.key, None)
        return True

    async def clear_nomination(self, pod: Pod) -> None:
        self.log.append(f"clear {pod.metadata.name}")
        if pod.metadata.name in self.refuse:
            raise self.refuse[pod.metadata.name]

    def record_event(self, victim: Pod, preemptor: Pod, note: str) -> None:
        self.notes.append(f"{victim.key} for {preemptor.key}: {note}")

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(work)

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        await run_together(*work)

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        for _ in range(round(within_s / self.look_s)):
            if holds():
                return True
            await asyncio.sleep(self.look_s)
            self.now += self.look_s
        return holds()

    def try_again(self, uid: str) -> None:
        self.tried_again.append(uid)

    def attempted(self) -> None:
        self.measured.append(("attempt", 1))

    def evaluated(self, preemptor: str, result: str, seconds: float) -> None:
        self.measured.append((f"evaluated for a {preemptor}", result))

    def chosen(self, victims: int) -> None:
        self.measured.append(("victims", victims))

    def ended(self, result: str, seconds: float) -> None:
        self.measured.append(("ended", result))

    def wall(self) -> float:
        return self.now

    async def run(self) -> None:
        """Do what was begun."""
        while self.work:
            await self.work.pop(0)


class Offset(random.Random):
    """Starts the search where a test says."""

    start = 0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.asked: list[int] = []  # of how many nodes

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        self.asked.append(start)
        return self.start


class PreemptingBench:
    """Pods that are on nodes, and a plugin that preempts some of them for another one; nodes have 4 cpu and 8Gi."""

    cache: Cache
    evictions: NotedEvictions
    framework: Framework
    plugin: PostFilterPlugin

    def nodes(self, *names: str, **capacity: Any) -> None:
        for name in names:
            self.add_node(make_node(name).capacity(**{"cpu": "4", "memory": "8Gi", **capacity}).obj())

    def add_node(self, node: Node) -> None:
        self.cache.set_node(node)

    def place(self, pod: PodBuilder, node_name: str) -> Pod:
        """A pod that is there already, and in the watch."""
        placed = pod.node(node_name).obj()
        self.cache.set_pod(PodInfo(placed))
        self.evictions.pods[placed.key] = placed
        return placed

    def preempt(
        self, pod: PodBuilder, statuses: Mapping[str, Status] | None = None
    ) -> tuple[PostFilterResult | None, Status | None]:
        """PostFilter after PreFilter; by default every node rejects for want of room."""
        info, state = PodInfo(pod.obj()), CycleState()
        self.evictions.pods[info.key] = info.pod
        self.framework.schedule_pod(state, info)
        if statuses is None:
            statuses = {node.name: unschedulable("Insufficient cpu") for node in self.cache.table}
        return self.plugin.post_filter(state, info, statuses)


class Bench(PreemptingBench):
    """Nodes of 4 cpu and 8Gi by default."""

    plugin: DefaultPreemption

    def __init__(
        self,
        *,
        percentage: int = 10,
        absolute: int = 100,
        filters: tuple[Plugin, ...] = (),
        release: Release = RELEASE_1_36,
    ) -> None:
        self.cache = Cache()
        self.evictions = NotedEvictions()
        self.budgets = DisruptionBudgets()
        self.nominations = Nominations()
        self.rng = Offset(1)
        profiles: dict[str, ProfileHandle] = {}
        self.handle = Handle(
            table=self.cache.table,
            rng=self.rng,
            bind=self._bind,
            profiles=profiles,
            nominations=self.nominations,
            budgets=self.budgets,
            evictions=self.evictions,
            release=release,
        )
        self.plugin = DefaultPreemption(self.handle, DefaultPreemptionArgs(percentage, absolute))
        fit = Fit(self.handle)
        points: dict[str, list[tuple[Plugin, int]]] = {
            "preFilter": [(fit, 1)],
            "filter": [(fit, 1), *((plugin, 1) for plugin in filters)],
        }
        for plugin in filters:
            if hasattr(plugin, "pre_filter"):
                points["preFilter"].append((plugin, 1))
        self._points = points
        self.framework = self._make(points)
        profiles[PROFILE] = self.framework

    def _make(self, points: Mapping[str, list[tuple[Plugin, int]]]) -> Framework:
        return Framework(PROFILE, points, self.handle, observer=Measurements(), stopwatch=lambda: 0.0)

    def with_post_filter(self) -> Framework:
        """The profile with the plugin in it."""
        return self._make({**self._points, "postFilter": [(self.plugin, 1)]})

    async def _bind(self, pod: PodInfo, node_name: str) -> None:
        raise AssertionError("nothing is bound here")

    def chosen(self, pod: PodBuilder, statuses: Mapping[str, Status] | None = None) -> str:
        """The node that room is made on."""
        result, status = self.preempt(pod, statuses)
        assert status is None, status
        assert result is not None
        assert result.nominated_node_name
        return result.nominated_node_name

    def victims(self, pod: PodBuilder, node_name: str) -> tuple[list[str], int]:
        """A dry run on one node: names of the victims, the most important first, and violated budgets."""
        info, state = PodInfo(pod.obj()), CycleState()
        self.framework.schedule_pod(state, info)
        node = self.cache.table.get(node_name)
        assert node is not None
        found = WhatIfDryRun(self.handle).try_node(state, info, node, NOW)
        assert isinstance(found, Candidate), found
        return [victim.pod.metadata.name for victim in found.victims], found.violations
