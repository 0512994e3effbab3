"""Preemption by a PodGroup as kube-scheduler 1.36 has it with the gate WorkloadAwarePreemption: its steps and texts.

All units of lower priority in the whole cluster leave, and the group is planned. If it fits, each unit comes back
beside which the whole group can be planned again, those first whose eviction violates a PodDisruptionBudget, and the
more important first. Source: pkg/scheduler/framework/preemption/podgrouppreemption.go of that release.

A difference: no more than MOST_TRIED members are planned on trial; units that have not come back by then are evicted.
kube-scheduler plans without end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.cache.cache import Cache
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.evaluator import NEVER, POLICY_NEVER
from kscheduler.framework.status import Code, Status, error_status, unresolvable, unschedulable
from kscheduler.gangs.gang import Disruption, GangKey
from kscheduler.gangs.memberwise_planner import MemberwisePlan
from kscheduler.gangs.preemption.away import Away
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.units import Order, Unit, pods_of
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.texts import GROUP_UNSCHEDULABLE, NOBODY_BELOW, other_pod_failed
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

MOST_TRIED = 50_000
EVICTS = Status(Code.SUCCESS)


class MemberwisePreemption:
    def __init__(self, cache: Cache, registry: Registry, handle: Handle, executor: GangExecutor) -> None:
        self._cache = cache
        self._registry = registry
        self._handle = handle
        self._executor = executor

    def preempt(
        self,
        face: PodInfo,
        priority: int,
        members: Sequence[QueuedPodInfo],
        missing: int,
        plan: Callable[[], MemberwisePlan],
    ) -> Status:
        """Evict pods below a priority if the group then fits; returns a success then, else why not.

        `face`: the group's pod in the queue. `missing`: so many members have to be placed. `plan`: plans the members,
        with nobody preempting for them; nothing may be assumed.
        """
        # 1. All units of lower priority leave.
        if any(queued.pod_info.pod.spec.preemption_policy == NEVER for queued in members):
            return unschedulable(POLICY_NEVER)
        lowest = self._handle.table.lowest_priority
        units = [] if lowest is None else self._units(priority)
        if not units:
            return unresolvable(NOBODY_BELOW)
        now = self._handle.evictions.wall()
        order = Order(self._handle.budgets, now, stops_at_overdrawn=True, stops_at_pod=True)
        with Away(self._cache) as away:
            away.take(pods_of(units))
            found = plan()
            fits = found.reaches(missing) and not away.is_torn
            found.placed.undo()
            if found.fault is not None:
                fault = found.fault.rejection
                return error_status(other_pod_failed(fault.message), fault.status.error)
            if not fits:
                return unschedulable(*(found.reasons or (GROUP_UNSCHEDULABLE,)))
            # 2. They come back one by one.
            out: list[Unit] = []
            left = MOST_TRIED
            for unit in order.returning(units):
                left -= len(members)
                away.put_back(unit.pods)
                if left < 0 or not _fits(plan(), missing):
                    away.take(unit.pods)
                    out.append(unit)
            if away.is_torn:
                return unschedulable(GROUP_UNSCHEDULABLE)
        # 3. The others are evicted.
        victims = pods_of(order.by_importance(out))
        if victims:
            self._executor.evict(victims, face, {})
        return EVICTS

    def _units(self, below: int) -> list[Unit]:
        """Return what may be evicted below a priority: pods, and PodGroups whose pods are disrupted together."""
        units: list[Unit] = []
        wholes: dict[GangKey, list[PodInfo]] = {}
        for node in self._handle.table:
            for pod in node.pods.values():
                member = self._registry.members.get(pod.uid)
                gang = None if member is None else member.tracked.gang
                if gang is not None and gang.disruption is Disruption.ALL:
                    if (gang.priority or 0) < below:
                        wholes.setdefault(gang.key, []).append(pod)
                elif pod.priority < below:
                    units.append(Unit((pod,), pod.priority, None if member is None else member.tracked.key))
        for key, pods in wholes.items():
            tracked = self._registry.get(key)
            priority = 0 if tracked is None or tracked.gang is None else tracked.gang.priority or 0
            units.append(Unit(tuple(pods), priority, key))
        return units


def _fits(plan: MemberwisePlan, missing: int) -> bool:
    """Return whether a plan is good, and undo it."""
    fits = plan.reaches(missing)
    plan.placed.undo()
    return fits
