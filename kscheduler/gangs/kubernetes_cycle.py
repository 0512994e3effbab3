"""A PodGroup's scheduling cycle as kube-scheduler 1.37 has it: the same checks, order and texts.

The members are placed as for any gang. What differs is when a group is rejected without a plan, and what its pods and
its condition say then, and how pods are evicted for it (`preemption.kubernetes`). Sources:
pkg/scheduler/schedule_one_podgroup.go and the plugin GangScheduling of that release.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from kscheduler.config.releases import Release
from kscheduler.framework.algorithm import Rejection
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.plugins.dynamicresources.plugin import NAME as DYNAMIC_RESOURCES
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import STATUS_LABELS, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.gangs.gang_cycle import Ended, GangCycle
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.mismatch import mismatch, preemption_policy
from kscheduler.gangs.placements import DomainUnknown, Placements
from kscheduler.gangs.planner import Failed, Plan
from kscheduler.gangs.preemption.kubernetes import InVain, KubernetesPreemption, PlanOf
from kscheduler.gangs.registry import TrackedGang
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.texts import (
    CLAIMS_RELEASED,
    CLAIMS_UNKNOWN,
    GROUP_UNSCHEDULABLE,
    NEVER_PREEMPTS,
    NO_VICTIMS,
    PREEMPTION,
    claims_fault,
    minimum_out_of_reach,
    other_pod_failed,
    preemption_fault,
)
from kscheduler.queue.pod_info import QueuedPodInfo

POLICY_GATE = "PodGroupPreemptionPolicy"


class KubernetesGangCycle(GangCycle):
    """`group_preemption`: evicts pods for groups that do not fit; None: there is nobody to evict."""

    def __init__(
        self,
        *parts: Any,
        release: Release,
        group_preemption: KubernetesPreemption | None = None,
        placements: Placements | None = None,
        **settings: Any,
    ) -> None:
        """`placements`: plans groups with the gate TopologyAwareWorkloadScheduling; None: it is off."""
        super().__init__(*parts, **settings)
        self._policy_is_of_group = release.has(POLICY_GATE)
        self._group_preemption = group_preemption
        self._placements = placements

    def _run(self, stand_in: StandIn) -> Ended | None:
        started = self._clock.now()
        tracked, members = self._registry.get(stand_in.gang_key), list(stand_in.flying.values())
        if tracked is not None and members:
            pods = [queued.pod_info.pod for queued in members]
            fault = mismatch(tracked, pods, is_policy_of_group=self._policy_is_of_group)
            if fault:
                return self._fail(stand_in, members, fault, started)
        try:
            return super()._run(stand_in)
        except DomainUnknown as error:
            return self._fail(stand_in, self._in_flight(stand_in), str(error), started)

    def _plan(self, tracked: TrackedGang, members: Sequence[QueuedPodInfo], missing: int) -> Plan:
        if self._placements is None:
            return super()._plan(tracked, members, missing)
        return self._placements.plan(tracked, members, missing)

    def _missing(self, tracked: TrackedGang) -> int:
        return tracked.missing

    def _fail(self, stand_in: StandIn, members: Sequence[QueuedPodInfo], fault: str, started: float) -> Ended:
        """Reject all members with a fault that was found before any of them was placed."""
        for queued in members:
            self._settle(queued, _rejection(error_status(fault), ""), started)
        self._return(stand_in, Outcome.FAULT, ())
        return Ended(Outcome.FAULT, fault)

    def _return_failed(self, failed: Sequence[Failed], started: float) -> None:
        for each in failed:
            self._settle(each.queued, _own_rejection(each, None), started)

    def _reject(self, stand_in: StandIn, plan: Plan, missing: int, started: float) -> Ended:
        placed = plan.had_node or {each.queued.uid for each in plan.placed}
        plan.placed.undo()
        tracked = self._registry.get(stand_in.gang_key)
        assert tracked is not None, "a gang in flight has members"
        own = {each.queued.uid: each for each in plan.failed}
        if plan.fault is not None:
            return self._end_with_fault(stand_in, plan, started)
        # 1. What the group says.
        reasons = _reasons(tracked, plan, len(placed))
        after, nominated = self._post_filter(stand_in, tracked, plan, placed, missing)
        if after.code is Code.ERROR:
            for queued in self._in_flight(stand_in):
                self._settle(queued, _rejection(after, ""), started)
            self._return(stand_in, Outcome.REJECTED, plan.failed)
            return Ended(Outcome.FAULT, after.message)
        group = unschedulable(*reasons, after.message)
        # 2. What each pod says, in order.
        waits = after.code is Code.SUCCESS  # for room that is being made
        of_placed = group if waits else unschedulable(GROUP_UNSCHEDULABLE, group.message)
        of_others = unschedulable(*reasons)
        not_tried = {queued.uid for queued in plan.not_tried}
        for queued in list(stand_in.flying.values()):
            nomination = nominated.get(queued.uid)
            if queued.uid in own:
                self._settle(queued, _own_rejection(own[queued.uid], nomination), started)
            elif queued.uid in placed:
                self._settle(queued, _rejection(of_placed, nomination if waits else ""), started)
            elif queued.uid in not_tried:
                self._settle(queued, _rejection(of_others, nomination), started)
        self._return(stand_in, Outcome.REJECTED, plan.failed)
        return Ended(Outcome.REJECTED, group.message, waits=waits)

    def _end_with_fault(self, stand_in: StandIn, plan: Plan, started: float) -> Ended:
        """Reject all members after the search for one of them met a fault."""
        assert plan.fault is not None
        text = other_pod_failed(plan.fault.rejection.message)
        of_others = _rejection(error_status(text, plan.fault.rejection.status.error), "")
        for queued in self._in_flight(stand_in):
            self._settle(queued, plan.fault.rejection if queued is plan.fault.queued else of_others, started)
        self._return(stand_in, Outcome.FAULT, plan.failed)
        return Ended(Outcome.FAULT, text)

    def _in_flight(self, stand_in: StandIn) -> list[QueuedPodInfo]:
        """Return the popped members whose attempts have not ended."""
        return [queued for queued in stand_in.flying.values() if self._queue.will_return(queued.uid)]

    def _post_filter(
        self,
        stand_in: StandIn,
        tracked: TrackedGang,
        plan: Plan,
        placed: Set[str],
        missing: int,
    ) -> tuple[Status, Mapping[str, str]]:
        """Do what kube-scheduler's PodGroupPostFilter plugins do.

        Returns a success with the nominations of members (pod uid -> node, "" for none), or why they do not help.
        `placed`: the uids of members that had a node before.
        """
        members = list(stand_in.flying.values())
        pods = [queued.pod_info.pod for queued in members]
        framework = self._one.decider_of(members[0].pod_info)
        reasons: list[str] = []
        for name in framework.post_filters:
            if name == DYNAMIC_RESOURCES:
                if self._has_constraint(tracked):
                    continue
                if not placed and not _asked_about_claims(plan.failed, framework):
                    return error_status(CLAIMS_UNKNOWN), {}
                released = _release_claims(framework, plan, members, has_placed=tracked.placed > 0)
                if released.code is not Code.UNSCHEDULABLE:
                    return released, {}
                reasons += released.reasons
            elif name == DEFAULT_PREEMPTION:
                if preemption_policy(tracked, pods, is_of_group=self._policy_is_of_group) == "Never":
                    reasons.append(NEVER_PREEMPTS)
                    self._count(Code.UNSCHEDULABLE)
                    continue
                status, nominations = self._preempt_for(stand_in, tracked, placed, missing)
                self._count(status.code)
                if status.code is not Code.UNSCHEDULABLE:
                    return status, nominations
                reasons += status.reasons
        return unschedulable(*reasons), {}

    def _has_constraint(self, tracked: TrackedGang) -> bool:
        """Return whether a topology constraint is heeded: claims of such groups are not released."""
        return self._placements is not None and tracked.gang is not None and tracked.gang.topology is not None

    def _count(self, code: Code) -> None:
        """Count an attempt to preempt, by the code of its status."""
        if self._group_preemption is not None:
            self._group_preemption.count(STATUS_LABELS[code])

    def _preempt_for(
        self, stand_in: StandIn, tracked: TrackedGang, placed: Set[str], missing: int
    ) -> tuple[Status, Mapping[str, str]]:
        if self._group_preemption is None:
            return unresolvable(NO_VICTIMS), {}
        priority = 0 if tracked.gang is None else tracked.gang.priority or 0
        members = self._in_flight(stand_in)
        plan: PlanOf = self.planner.plan
        if self._placements is not None:
            plan = functools.partial(self._placements.plan, tracked)
        found = self._group_preemption.preempt(stand_in.pod_info, priority, members, missing, placed, plan=plan)
        if not isinstance(found, InVain):
            return found
        fault = found.plan.fault
        if fault is not None:
            text = preemption_fault(other_pod_failed(fault.rejection.message))
            return error_status(text, fault.rejection.status.error), {}
        trial = unschedulable(*_reasons(tracked, found.plan, found.placed))
        return unschedulable(f"{PREEMPTION}: {trial.message}"), {}


def _reasons(tracked: TrackedGang, plan: Plan, placed: int) -> tuple[str, ...]:
    """Return why a group with a plan that places so many members is unschedulable, without preemption."""
    if plan.reasons is not None:
        return plan.reasons
    scheduled = tracked.placed + placed
    reasons: tuple[str, ...] = ()
    if scheduled < tracked.min_members:
        reasons = (minimum_out_of_reach(tracked.min_members, scheduled, len(plan.not_tried)),)
    if not reasons or not (placed or plan.failed):  # nothing was tried, or the minimum was there before
        reasons = (GROUP_UNSCHEDULABLE, *reasons)
    return reasons


def _release_claims(framework: Framework, plan: Plan, members: Sequence[QueuedPodInfo], *, has_placed: bool) -> Status:
    """Take claims of a group that was not placed back, if it may have some. Returns what DynamicResources says."""
    plugin, released = framework.class_compiler.claiming, None
    if plugin is not None:
        pods = [queued.pod_info for queued in members]
        released = plugin.release_claims(plan.shared, pods, has_placed=has_placed)
    if released is None:
        return unschedulable(CLAIMS_RELEASED)
    return released if released.is_rejected else error_status(claims_fault(released.message))


def _asked_about_claims(failed: Sequence[Failed], framework: Framework) -> bool:
    """Return whether the PreFilter of DynamicResources was asked about any of these members; others may end it before.

    kube-scheduler's PodGroupPostFilter fails otherwise.
    """
    names = framework.pre_filters
    for each in failed:
        diagnosis = each.rejection.diagnosis
        if diagnosis.total_nodes == 0:
            continue
        ended_by = [names.index(name) for name in diagnosis.unschedulable_plugins if name in names]
        if not diagnosis.pre_filter_message or max(ended_by, default=0) >= names.index(DYNAMIC_RESOURCES):
            return True
    return False


def _own_rejection(failed: Failed, nomination: str | None) -> Rejection:
    """Return why a member has no node, with a nomination that preemption gave it; None: with none.

    One that fits on no node keeps the nomination that it had.
    """
    if nomination is None and (failed.has_node or not failed.rejection.diagnosis.total_nodes):
        nomination = ""
    return replace(failed.rejection, nomination=nomination)


def _rejection(status: Status, nomination: str | None) -> Rejection:
    """Return a rejection that no node gave. `nomination`: None keeps that of the pod, "" takes it back."""
    return Rejection(status, Diagnosis(0), nomination)
