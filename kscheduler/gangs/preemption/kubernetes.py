"""Preemption by a PodGroup as kube-scheduler 1.37 has it: the same steps, order of sparing and texts.

All units of lower priority in the whole cluster leave; the group is planned once; if it fits, each unit comes back
beside which every planned member still fits on its node, those first whose eviction violates a PodDisruptionBudget, and
the more important first. Source: pkg/scheduler/framework/preemption/podgrouppreemption.go of that release.

A difference: members are checked on their nodes no more than MOST_CHECKS times; units that have not come back by then
are evicted. kube-scheduler checks without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.executor import is_ending_for_preemption
from kscheduler.framework.status import STATUS_LABELS, Code, Status, unresolvable
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.preemption.away import Away
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.fitting import Fitting
from kscheduler.gangs.preemption.kubernetes_groups import KubernetesGroups
from kscheduler.gangs.preemption.units import Order, Unit, pods_of
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.texts import NO_VICTIMS, ONGOING, preempting
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

MOST_CHECKS = 50_000


@dataclass(frozen=True, slots=True)
class InVain:
    """The plan, undone, by which a group does not fit even if all that it may evict is gone."""

    plan: Plan
    placed: int  # how many members had a node
    began: float  # when the search for victims did, for `KubernetesPreemption.evaluated`


# A status, with the nominations of members (pod uid -> node, "" for none) if it is a success.
PreemptionAnswer = tuple[Status, Mapping[str, str]] | InVain


class PlanOf(Protocol):
    """Plans the members of a group, as `Planner.plan` does."""

    def __call__(self, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool = False) -> Plan: ...


class KubernetesPreemption:
    def __init__(
        self, cache: Cache, registry: Registry, planner: Planner, handle: Handle, executor: GangExecutor
    ) -> None:
        self._cache = cache
        self._groups = KubernetesGroups(cache, registry)
        self._planner = planner
        self._handle = handle
        self._executor = executor

    def count(self, result: str) -> None:
        """Count an attempt, by the name of its status's code."""
        self._handle.evictions.group_attempted(result)

    def evaluated(self, code: Code, began: float) -> None:
        """Report for metrics how the search for victims ended that began then; if it was in vain, the caller does."""
        if self._handle.release.measures_preemptors:
            seconds = self._handle.stopwatch() - began
            self._handle.evictions.evaluated("podgroup", STATUS_LABELS[code], seconds)

    def preempt(
        self,
        face: PodInfo,
        priority: int,
        members: Sequence[QueuedPodInfo],
        missing: int,
        placed: Iterable[str] = (),
        *,
        plan: PlanOf | None = None,
    ) -> PreemptionAnswer:
        """Evict pods below a priority if the group then fits.

        `face`: the group's pod in the queue. `members`: those without a node, in order. `placed`: the uids of those
        that had a node in this attempt, although there were too few. `plan`: plans them; None: the planner does.
        """
        # 1. Is there an earlier preemption to wait for?
        nominated = {queued.uid: self._planner.nomination_of(queued) for queued in members}  # statuses may lack it yet
        if self._executor.is_running(face.uid) or self._is_ongoing(set(nominated.values()), priority):
            return Status(Code.SUCCESS, (ONGOING,)), nominated
        # 2. All units of lower priority leave.
        for uid in placed:
            self._handle.nominations.remove(uid)  # as kube-scheduler does when it assumes a pod, even for a trial
        began = self._handle.stopwatch()
        lowest = self._handle.table.lowest_priority
        units = [] if lowest is None else self._groups.units(self._handle.table, priority)
        if not units:
            self.evaluated(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, began)
            return unresolvable(NO_VICTIMS), {}
        order = Order(
            self._handle.budgets,
            self._handle.evictions.wall(),
            stops_at_overdrawn=self._handle.release.stops_at_overdrawn_budget,
        )
        with Away(self._cache) as away:
            away.take(pods_of(units))
            found = (plan or self._planner.plan)(members, missing, on_trial=True)
            try:
                if not found.reaches(missing) or away.is_torn:
                    return InVain(found, len(found.placed), began)
                # 3. They come back one by one.
                out = self._spare(units, order, away, found)
                nominations = {placed.queued.uid: placed.node_name for placed in found.placed}
            finally:
                found.placed.undo()
        self.evaluated(Code.SUCCESS, began)
        # 4. The others are evicted.
        victims = pods_of(out)
        if any(victim.pod.metadata.deletion_timestamp is None for victim in victims):
            units = [unit for unit in out if unit.gang is not None]
            kind, violations = self._executor.kind_of(face), sum(order.violations.get(unit, 0) for unit in out)
            self._handle.evictions.group_chosen(kind, len(victims), len(units))
            if violations and self._handle.release.measures_preemptors:
                self._handle.evictions.violated(kind, violations)
        if victims:
            self._executor.evict(victims, face, {})
        return Status(Code.SUCCESS, (preempting(len(victims)),)), nominations

    def _is_ongoing(self, nominated: Iterable[str], priority: int) -> bool:
        """Return True if a preempted pod of lower priority is terminating on one of these nodes."""
        for name in nominated:
            node = self._handle.table.get(name)
            for other in () if node is None else node.pods.values():
                if self._groups.priority_of(other) < priority and self._is_ending(other.pod):
                    return True
        return False

    def _is_ending(self, pod: Pod) -> bool:
        return is_ending_for_preemption(pod) or self._executor.has_ended(pod)

    def _spare(self, units: Sequence[Unit], order: Order, away: Away, plan: Plan) -> list[Unit]:
        """Put units back beside which all planned members fit. Returns the others, the most important first."""
        fitting = Fitting(self._planner, away, plan, MOST_CHECKS, in_order=True)
        victims: list[Unit] = []
        for unit in order.returning(units):
            away.put_back(unit.pods)
            if not fitting.holds([unit]):
                away.take(unit.pods)
                victims.append(unit)
        return order.by_importance(victims)
