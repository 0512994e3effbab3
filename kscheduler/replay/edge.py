"""The edge of the scheduler: where its tasks wait for the apiserver, for a timer or for each other.

A task of the scheduler (a binding cycle, a preemption) runs without a break from one wait to the next. So the order of
these runs, and the results of the waits, are all that it brings into the scheduler from outside. The parts here are
those of a scheduler whose tasks wait at an `Edge` only; a recorder and a replay have one each.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from kscheduler.api.devices import ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.objects import (
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodCondition,
    PodExtendedResourceClaimStatus,
)
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Binding, Client
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.cycle.waiting_pods import WaitingPod, WaitingPods
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import STATUS_LABELS, Status
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.record import entries
from kscheduler.snapshot.pod_info import PodInfo

T = TypeVar("T")

STARTS = frozenset({"preempt", "evict", "bindingCycle", "writeClaim"})  # verbs of requests that start a task


class Edge(Protocol):
    """Where tasks wait, and where they begin."""

    async def wait(self, verb: str, subject: str, call: Callable[[], Awaitable[T]], kind: type[Any]) -> T:
        """Return what the call returns, an object of type `kind`, or raise what it raises."""
        ...

    def task(self, verb: str, subject: str, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Return the coroutine to run in place of `work`."""
        ...


def at_edge(handle: Handle, edge: Edge, seed: int) -> Handle:
    """Return a handle whose requests wait at the edge, and whose random numbers come from the seed."""

    async def bind(pod: PodInfo, node_name: str) -> None:
        await edge.wait("bind", pod.uid, lambda: handle.bind(pod, node_name), type(None))

    async def patch_volume(name: str, version: str, patch: dict[str, object]) -> PersistentVolume:
        return await edge.wait("patchVolume", name, lambda: handle.patch_volume(name, version, patch), PersistentVolume)

    async def patch_claim(namespace: str, name: str, version: str, patch: dict[str, object]) -> PersistentVolumeClaim:
        return await edge.wait(
            "patchClaim",
            f"{namespace}/{name}",
            lambda: handle.patch_claim(namespace, name, version, patch),
            PersistentVolumeClaim,
        )

    async def sleep(seconds: float) -> None:
        await edge.wait("sleep", "", lambda: handle.sleep(seconds), type(None))

    async def within(seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await edge.wait("within", "", lambda: handle.within(seconds, work), tuple)
        finally:
            work.close()  # in a replay it has not been started

    return replace(
        handle,
        rng=random.Random(seed),
        bind=bind,
        patch_volume=patch_volume,
        patch_claim=patch_claim,
        sleep=sleep,
        within=within,
    )


class EdgeEvictions(Evictions):
    """Evictions whose writes and waits are at the edge. `victims` are those of the preemption planned last."""

    def __init__(self, inner: Evictions, edge: Edge) -> None:
        self._inner = inner
        self._edge = edge
        self.victims: tuple[str, ...] = ()

    def current(self, key: str) -> Pod | None:
        return self._inner.current(key)

    def stop_binding(self, uid: str, plugin: str) -> bool:
        return self._inner.stop_binding(uid, plugin)

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        return await self._edge.wait("mark", victim.metadata.uid, lambda: self._inner.mark(victim, condition), bool)

    async def delete(self, victim: Pod) -> bool:
        return await self._edge.wait("delete", victim.metadata.uid, lambda: self._inner.delete(victim), bool)

    async def clear_nomination(self, pod: Pod) -> None:
        call = lambda: self._inner.clear_nomination(pod)  # noqa: E731
        await self._edge.wait("clearNomination", pod.metadata.uid, call, type(None))

    def record_event(self, victim: Pod, preemptor: Pod, note: str) -> None:
        self._inner.record_event(victim, preemptor, note)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._inner.begin(self._edge.task("preempt", "", work))

    async def together(self, *work: Coroutine[Any, Any, object]) -> None:
        tasks = [self._edge.task("evict", "", _plain(each)) for each in work]
        await self._edge.wait("together", "", lambda: self._inner.together(*tasks), type(None))

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        return await self._edge.wait("until", "", lambda: self._inner.until(holds, within_s), bool)

    def try_again(self, uid: str) -> None:
        self._inner.try_again(uid)

    def planned(self, preemptor: Pod, victims: Sequence[Pod]) -> None:
        self.victims = tuple(victim.metadata.uid for victim in victims)

    def attempted(self) -> None:
        self._inner.attempted()

    def chosen(self, victims: int) -> None:
        self._inner.chosen(victims)

    def group_attempted(self, result: str) -> None:
        self._inner.group_attempted(result)

    def group_chosen(self, kind: str, victims: int, units: int) -> None:
        self._inner.group_chosen(kind, victims, units)

    def ended(self, result: str, seconds: float) -> None:
        self._inner.ended(result, seconds)

    def evaluated(self, kind: str, result: str, seconds: float) -> None:
        self._inner.evaluated(kind, result, seconds)

    def executed(self, kind: str, result: str, seconds: float) -> None:
        self._inner.executed(kind, result, seconds)

    def violated(self, kind: str, victims: int) -> None:
        self._inner.violated(kind, victims)

    def wall(self) -> float:
        return self._inner.wall()


class EdgeClaims(ClaimWrites):
    """Writes of ResourceClaims at the edge."""

    def __init__(self, inner: ClaimWrites, edge: Edge) -> None:
        self._inner = inner
        self._edge = edge

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._edge.wait("getClaim", claim.key, lambda: self._inner.get(claim), ResourceClaim)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._edge.wait("createClaim", claim.key, lambda: self._inner.create(claim), ResourceClaim)

    async def patch(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        call = lambda: self._inner.patch(claim, patch)  # noqa: E731
        return await self._edge.wait("patchResourceClaim", claim.key, call, ResourceClaim)

    async def patch_status(self, claim: ResourceClaim, patch: dict[str, object]) -> ResourceClaim:
        call = lambda: self._inner.patch_status(claim, patch)  # noqa: E731
        return await self._edge.wait("patchClaimStatus", claim.key, call, ResourceClaim)

    async def reserve(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> ResourceClaim:
        call = lambda: self._inner.reserve(claim, consumer)  # noqa: E731
        return await self._edge.wait("reserveClaim", claim.key, call, ResourceClaim)

    async def release(self, claim: ResourceClaim, consumer_uid: str) -> ResourceClaim:
        call = lambda: self._inner.release(claim, consumer_uid)  # noqa: E731
        return await self._edge.wait("releaseClaim", claim.key, call, ResourceClaim)

    async def delete(self, claim: ResourceClaim) -> None:
        await self._edge.wait("deleteClaim", claim.key, lambda: self._inner.delete(claim), type(None))

    async def set_pod_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        call = lambda: self._inner.set_pod_claim(pod, status)  # noqa: E731
        await self._edge.wait("setPodClaim", pod.metadata.uid, call, type(None))

    async def set_pod_node_resources(self, pod: Pod, statuses: list[NodeAllocatableResourceClaimStatus]) -> None:
        call = lambda: self._inner.set_pod_node_resources(pod, statuses)  # noqa: E731
        await self._edge.wait("setPodNodeResources", pod.metadata.uid, call, type(None))

    def begin(self, claim: ResourceClaim, work: Coroutine[Any, Any, None]) -> None:
        self._inner.begin(claim, self._edge.task("writeClaim", claim.key, work))

    def record_event(self, pod: Pod, reason: str, note: str) -> None:
        self._inner.record_event(pod, reason, note)

    def created(self, result: str) -> None:
        self._inner.created(result)

    def waited(self, profile: str, driver: str, result: str, seconds: float) -> None:
        self._inner.waited(profile, driver, result, seconds)

    def conditions_ended(self, profile: str, driver: str, result: str) -> None:
        self._inner.conditions_ended(profile, driver, result)

    def now(self) -> str:
        return self._inner.now()

    def seconds_since(self, time: str) -> float:
        return self._inner.seconds_since(time)


async def _plain(work: Coroutine[Any, Any, object]) -> None:
    await work


class EdgeStatuses(PodStatusLane):
    """Pods' conditions and nominations, with the one write that is awaited at the edge."""

    def __init__(self, client: Client, edge: Edge) -> None:
        super().__init__(client)
        self._edge = edge

    async def nominate(self, pod: Pod, node_name: str) -> None:
        call = super().nominate
        await self._edge.wait("nominate", pod.metadata.uid, lambda: call(pod, node_name), type(None))


class EdgeWaitingPods(WaitingPods):
    """Pods that wait because a Permit plugin wants it, at the edge."""

    def __init__(self, edge: Edge, on_change: Callable[[], None]) -> None:
        super().__init__(on_change)
        self._edge = edge

    def add(self, pod: PodInfo, waits: dict[str, float]) -> WaitingPod:
        waiting = self.by_uid[pod.uid] = _EdgeWaitingPod(self._edge, pod, waits)
        self._on_change()
        return waiting


class _EdgeWaitingPod(WaitingPod):
    def __init__(self, edge: Edge, pod: PodInfo, waits: dict[str, float]) -> None:
        super().__init__(pod, waits)
        self._edge = edge

    async def wait(self) -> Status | None:
        return await self._edge.wait("permit", self.pod.uid, super().wait, Status)


class NotedCycles(ScheduleOne):
    """Both cycles of a pod. `note` gets each decision; binding cycles wait at `edge`."""

    note: Callable[[entries.Decision], object]
    edge: Edge
    evictions: EdgeEvictions

    def settle(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        found: Decision | Rejection,
        started: float,
        *,
        looks_back: bool = True,
    ) -> BindingCycle | None:
        victims, self.evictions.victims = self.evictions.victims, ()
        self.note(_decision(queued, framework.profile, found, victims))
        return super().settle(queued, framework, state, found, started, looks_back=looks_back)

    def record_placed(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], feasible: Sequence[int], now: float
    ) -> None:
        for queued, node_name, fitting in zip(placed, node_names, feasible, strict=True):
            pod = queued.pod_info.pod
            profile = pod.spec.scheduler_name
            self.note(entries.Decision(pod.metadata.uid, pod.key, queued.attempts, profile, node_name, fitting))
        super().record_placed(placed, node_names, feasible, now)

    def bind(
        self, cycle: BindingCycle, write: Callable[[BindingCycle, Binding], None] | None = None
    ) -> Coroutine[Any, Any, None]:
        return self.edge.task("bindingCycle", cycle.pod.uid, super().bind(cycle, write))


def _decision(
    queued: QueuedPodInfo, profile: str, found: Decision | Rejection, victims: tuple[str, ...]
) -> entries.Decision:
    pod = queued.pod_info.pod
    uid, attempt = pod.metadata.uid, queued.attempts
    if isinstance(found, Decision):
        return entries.Decision(uid, pod.key, attempt, profile, found.node_name, found.feasible)
    diagnosis = found.diagnosis
    return entries.Decision(
        uid,
        pod.key,
        attempt,
        profile,
        code=STATUS_LABELS[found.status.code],
        reason=found.message,
        plugins=tuple(sorted(diagnosis.unschedulable_plugins)),
        pending=tuple(sorted(diagnosis.pending_plugins)),
        nominated=found.nomination,
        victims=victims,
    )
