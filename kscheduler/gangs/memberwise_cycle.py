"""A PodGroup's scheduling cycle as kube-scheduler 1.36 has it: the same steps, order and texts.

Each member is decided as a pod by itself would be, with preemption. If that gives enough of them a node, all those are
bound; if some of these nodes are still to be made free, all members wait for that. Source:
pkg/scheduler/schedule_one_podgroup.go and the plugin GangScheduling of that release, without the gates
WorkloadAwarePreemption and TopologyAwareWorkloadScheduling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from kscheduler.framework.algorithm import Rejection
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.status import Status, error_status, unschedulable
from kscheduler.gangs.gang_cycle import Ended, GangCycle
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.memberwise_planner import MemberwisePlan, MemberwisePlanner
from kscheduler.gangs.mismatch import different_schedulers
from kscheduler.gangs.planner import Failed
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.texts import GROUP_UNSCHEDULABLE, WAITS_FOR_MINIMUM, WAITS_FOR_ROOM, other_pod_failed
from kscheduler.queue.pod_info import NOBODY, QueuedPodInfo


class MemberwiseCycle(GangCycle):
    planner: MemberwisePlanner

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
        plan = self.planner.plan_each(members, has_placed=tracked.placed > 0)
        if plan.fault is not None:
            return self._end_with_fault(stand_in, plan, members, started)
        is_feasible = len(plan.placed) >= missing
        if is_feasible and not plan.preempting:
            return self._commit(stand_in, plan, missing, started)
        return self._turn_down(stand_in, plan, members, started, waits=is_feasible)

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
        plan: MemberwisePlan,
        members: Sequence[QueuedPodInfo],
        started: float,
        *,
        waits: bool,
    ) -> Ended:
        """Take back what was placed; every member returns to the queue with a reason.

        `waits`: enough members have a node, or will have one once victims are gone.
        """
        nodes = {each.queued.uid: each.node_name for each in plan.placed}
        plan.placed.undo()
        group = unschedulable(GROUP_UNSCHEDULABLE, *([WAITS_FOR_ROOM] if waits else []))
        too_few = unschedulable(GROUP_UNSCHEDULABLE, WAITS_FOR_MINIMUM)
        own = {each.queued.uid: each.rejection for each in plan.failed}
        for queued in members:
            uid = queued.uid
            if uid in own:
                rejection = own[uid]
            elif not waits:
                rejection = _rejection(too_few, "")
            else:
                rejection = plan.preempting.get(uid) or _rejection(group, nodes[uid])
            self._settle(queued, rejection, started)
        # One that would have fitted is tried again after its backoff, and the others with it.
        self._return(stand_in, Outcome.REJECTED, () if nodes else plan.failed)
        return Ended(Outcome.REJECTED, group.message, waits=waits)

    def _return(
        self, stand_in: StandIn, outcome: Outcome, failed: Sequence[Failed], rejecting: Set[str] = NOBODY
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
