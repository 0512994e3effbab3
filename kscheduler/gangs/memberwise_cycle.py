"""A PodGroup's scheduling cycle as kube-scheduler 1.36 has it: the same steps, order and texts.

Each member is decided as a pod by itself would be, with preemption. If that gives enough of them a node, all those are
bound; if some of these nodes are still to be made free, all members wait for that. With the gate
TopologyAwareWorkloadScheduling the members are decided so in each placement; with the gate WorkloadAwarePreemption the
group preempts as a whole, and no member by itself. Source: pkg/scheduler/schedule_one_podgroup.go and the plugin
GangScheduling of that release.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence, Set
from typing import Any

from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import Code, Status, error_status, unschedulable
from kscheduler.gangs.gang_cycle import Ended, GangCycle
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.memberwise_placements import MemberwisePlacements
from kscheduler.gangs.memberwise_planner import MemberwisePlan, MemberwisePlanner
from kscheduler.gangs.mismatch import different_schedulers
from kscheduler.gangs.placements import DomainUnknown
from kscheduler.gangs.planner import Failed
from kscheduler.gangs.preemption.memberwise import MemberwisePreemption
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.texts import (
    GROUP_UNSCHEDULABLE,
    NO_PREEMPTION,
    NOT_WITH_CONSTRAINTS,
    PREEMPTS_TOGETHER,
    WAITS_FOR_MINIMUM,
    WAITS_FOR_ROOM,
    other_pod_failed,
)
from kscheduler.gangs.tracked_gang import TrackedGang
from kscheduler.queue.pod_info import NOBODY, QueuedPodInfo


class MemberwiseCycle(GangCycle):
    planner: MemberwisePlanner

    def __init__(
        self,
        *parts: Any,
        placements: MemberwisePlacements | None = None,
        group_preemption: MemberwisePreemption | None = None,
        **settings: Any,
    ) -> None:
        """`placements`: plans groups with the gate TopologyAwareWorkloadScheduling; None: it is off.

        `group_preemption`: evicts pods for groups with the gate WorkloadAwarePreemption; None: it is off.
        """
        super().__init__(*parts, **settings)
        self._placements = placements
        self._group_preemption = group_preemption

    def _run(self, stand_in: StandIn) -> Ended | None:
        started = self._clock.now()
        members = self._in_order(stand_in.flying.values())
        # 1. Whom is it about?
        fault = different_schedulers([queued.pod_info.pod for queued in members])
        if fault:
            for queued in members:
                self._settle(queued, _rejection(error_status(fault), ""), started)
            self._return(stand_in, Outcome.FAULT, ())
            return None  # the group's condition stays
        members = self._one.leave_out(members)
        tracked = self._registry.get(stand_in.gang_key)
        if not members or tracked is None:
            self._queue.return_gang(stand_in, Outcome.PLACED, started)
            return None
        # 2. The plan.
        missing = max(tracked.missing, 1)
        try:
            plan = self._plan_each(tracked, members, missing)
        except DomainUnknown as error:
            for queued in members:
                self._settle(queued, _rejection(error_status(str(error)), ""), started)
            self._return(stand_in, Outcome.FAULT, ())
            return Ended(Outcome.FAULT, str(error))
        if plan.fault is not None:
            self._note(plan)
            return self._end_with_fault(stand_in, plan, members, started)
        is_feasible = len(plan.placed) >= missing
        if is_feasible and not plan.preempting:
            return self._commit(stand_in, plan, missing, started)
        return self._turn_down(stand_in, tracked, plan, members, started, waits=is_feasible)

    def _plan_each(
        self, tracked: TrackedGang, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool = False
    ) -> MemberwisePlan:
        how: dict[str, Any] = {"has_placed": tracked.placed > 0, "on_trial": on_trial}
        if self._group_preemption is not None:
            how["why_not_preempt"] = PREEMPTS_TOGETHER
        if self._placements is None:
            return self.planner.plan_each(members, **how)
        return self._placements.plan_each(tracked, members, missing, **how)

    def _preempt_together(self, stand_in: StandIn, tracked: TrackedGang, members: Sequence[QueuedPodInfo]) -> Status:
        """Evict pods for the group if that helps; returns a success then, else why not."""
        framework = self._one.decider_of(members[0].pod_info)
        if self._group_preemption is None or DEFAULT_PREEMPTION not in framework.post_filters:
            return unschedulable(NO_PREEMPTION)
        gang = tracked.gang
        if gang is not None and gang.topology is not None:
            return unschedulable(NOT_WITH_CONSTRAINTS)
        missing, priority = max(tracked.missing, 1), 0 if gang is None else gang.priority or 0
        plan = functools.partial(self._plan_each, tracked, members, missing, on_trial=True)
        return self._group_preemption.preempt(stand_in.pod_info, priority, members, missing, plan)

    def _in_order(self, members: Iterable[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Return the members in the order in which they are tried: by priority, then by their first attempts."""
        return sorted(members, key=lambda queued: (-queued.pod_info.priority, queued.initial_attempt_timestamp or 0.0))

    def _end_with_fault(
        self, stand_in: StandIn, plan: MemberwisePlan, members: Sequence[QueuedPodInfo], started: float
    ) -> Ended:
        """Reject all members after the search for one of them met a fault."""
        assert plan.fault is not None
        plan.placed.undo()
        text = other_pod_failed(plan.fault.rejection.message)
        of_others = _rejection(error_status(text, plan.fault.rejection.status.error), "")
        for queued in members:
            self._settle(queued, plan.fault.rejection if queued is plan.fault.queued else of_others, started)
        self._return(stand_in, Outcome.FAULT, ())
        return Ended(Outcome.FAULT, text)

    def _turn_down(
        self,
        stand_in: StandIn,
        tracked: TrackedGang,
        plan: MemberwisePlan,
        members: Sequence[QueuedPodInfo],
        started: float,
        *,
        waits: bool,
    ) -> Ended:
        """Take back what was placed; every member returns to the queue with a reason.

        `waits`: enough members have a node, or will have one once victims are gone.
        """
        self._note(plan)
        # 1. What was placed is taken back.
        nodes = plan.nodes or {each.queued.uid: each.node_name for each in plan.placed}
        plan.placed.undo()
        # 2. Would the group fit if others left?
        reasons = [GROUP_UNSCHEDULABLE] if plan.reasons is None else [*plan.reasons]
        if waits:
            reasons.append(WAITS_FOR_ROOM)
        elif self._group_preemption is not None:
            after = self._preempt_together(stand_in, tracked, members)
            if after.code is Code.ERROR:
                for queued in members:
                    self._settle(queued, _rejection(after, ""), started)
                self._return(stand_in, Outcome.FAULT, ())
                return Ended(Outcome.FAULT, after.message)
            waits = after.code is Code.SUCCESS
            if not waits:
                reasons.append(after.message)
        # 3. Each member gets its own reason, or the group's.
        group = unschedulable(*reasons)
        too_few = unschedulable(GROUP_UNSCHEDULABLE, WAITS_FOR_MINIMUM)
        not_tried = {queued.uid for queued in plan.not_tried}
        own = {each.queued.uid: each.rejection for each in plan.failed}
        for queued in members:
            uid = queued.uid
            if uid in own:
                rejection = own[uid]
            elif uid in not_tried:
                rejection = _rejection(group, None)
            elif not waits:
                rejection = _rejection(too_few, "")
            else:
                rejection = plan.preempting.get(uid) or _rejection(group, nodes[uid])
            self._settle(queued, rejection, started)
        # One that would have fitted is tried again after its backoff, and the others with it.
        self._return(stand_in, Outcome.REJECTED, () if nodes else plan.failed)
        return Ended(Outcome.REJECTED, group.message, waits=waits)

    def _return(
        self,
        stand_in: StandIn,
        outcome: Outcome,
        failed: Sequence[Failed],
        rejecting: Set[str] = NOBODY,
        elsewhere: Sequence[QueuedPodInfo] = (),
    ) -> None:
        """Return the group, to wait for what may help any member that failed."""
        diagnoses = [each.rejection.diagnosis for each in failed]
        plugins = frozenset(rejecting).union(*(each.unschedulable_plugins for each in diagnoses))
        pending = NOBODY.union(*(each.pending_plugins for each in diagnoses))
        first = failed[0].queued if failed else None
        self._queue.return_gang(stand_in, outcome, self._clock.now(), plugins, pending, first)


def _rejection(status: Status, nomination: str | None) -> Rejection:
    """Return a rejection that no node gave. `nomination`: "" takes that of the pod back."""
    return Rejection(status, Diagnosis(0), nomination)
