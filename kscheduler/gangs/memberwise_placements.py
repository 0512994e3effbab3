"""Plans PodGroups as kube-scheduler 1.36 does with the gate TopologyAwareWorkloadScheduling: by placements.

Placements are generated and scored as in 1.37 (`placements.py`). In each of them the members are planned one by one.
Those of a group with a topology constraint preempt nobody. Source: podGroupSchedulingPlacementAlgorithm in
pkg/scheduler/schedule_one_podgroup.go of that release.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.gangs.memberwise_planner import MemberwisePlan, MemberwisePlanner
from kscheduler.gangs.placements import Available, Placements
from kscheduler.gangs.texts import GROUP_UNSCHEDULABLE, NO_PLACEMENTS, PLACED_APART, no_placement_available
from kscheduler.gangs.tracked_gang import TrackedGang
from kscheduler.gangs.undo_log import UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo


class MemberwisePlacements:
    def __init__(self, planner: MemberwisePlanner, placements: Placements) -> None:
        self._planner = planner
        self._placements = placements

    def plan_each(
        self,
        tracked: TrackedGang,
        members: Sequence[QueuedPodInfo],
        missing: int,
        *,
        has_placed: bool,
        why_not_preempt: str = "",
        on_trial: bool = False,
    ) -> MemberwisePlan:
        """Plan a group as `MemberwisePlanner.plan_each` does, in the best placement in which it is feasible.

        If there is none, the plan is the first one's, undone; it has the group's `reasons`, and the `nodes` that its
        members had. Raises DomainUnknown.
        """
        # 1. Which placements are there?
        places = self._placements.generate(tracked, members[0].pod_info.pod.spec.scheduler_name)
        if not places:
            undone = UndoLog(self._planner.cache)
            return MemberwisePlan(undone, not_tried=members, reasons=(NO_PLACEMENTS,))
        if tracked.gang is not None and tracked.gang.topology is not None:
            why_not_preempt = PLACED_APART
        # 2. The group is planned in each of them, and the plan undone.
        feasible: list[MemberwisePlan] = []
        available: list[Available] = []
        first: MemberwisePlan | None = None
        for place in places:
            within = None if place is None else place.confinement
            plan = self._planner.plan_each(
                members, has_placed=has_placed, within=within, why_not_preempt=why_not_preempt, on_trial=on_trial
            )
            if plan.fault is not None:
                return plan
            if len(plan.placed) >= missing:
                if len(places) == 1:
                    return plan
                feasible.append(plan)
                available.append(Available(place, list(plan.placed)))
            if first is None:
                first = plan
                plan.nodes = {placed.queued.uid: placed.node_name for placed in plan.placed}
            plan.placed.undo()
        # 3. The best one in which it is feasible is taken.
        assert first is not None, "there are placements"
        if not available:
            first.reasons = (no_placement_available(len(places), GROUP_UNSCHEDULABLE),)
            return first
        best = self._placements.best(tracked, members[0].pod_info.pod.spec.scheduler_name, available)
        self._planner.place_again(feasible[best], members, available[best].placed)
        return feasible[best]
