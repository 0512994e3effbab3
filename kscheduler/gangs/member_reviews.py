"""Has members of gangs decided so that it can be explained where they went, and why others fit nowhere.

What a search found out about the nodes is lost once the next one begins, and a plan may be undone. So it is taken from
the search of each such member, and kept with the plan, until the gang is placed. Of a member that fits nowhere it is
kept with its rejection, whether somebody asked or not, as for a pod in no gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kscheduler.clock import Clock
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.record import DecisionRecord
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Fitted
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.gangs.planner import Plan
from kscheduler.gangs.undo_log import Placed
from kscheduler.queue.pod_info import QueuedPodInfo


class Noted(NamedTuple):
    """What is to be explained of a gang that is rejected."""

    fitted: Mapping[str, Fitted] = {}  # pod uid of a member -> the node that it would have had
    stopped_by: str = ""  # uid of the first member that fits nowhere, or met a fault


NOTHING_NOTED = Noted()


class MemberReviews:
    def __init__(self, decisions: DecisionLog, clock: Clock, stopwatch: Callable[[], float]) -> None:
        self._decisions = decisions
        self._clock = clock
        self._stopwatch = stopwatch

    def first_asked_for(self, members: Sequence[QueuedPodInfo]) -> int:
        """Return the index of the first member that must be decided alone; the number of members if none must."""
        return self._decisions.first_asked_for(members, self._clock.now())

    def decide(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState
    ) -> tuple[Decision | Rejection, object | None]:
        """Search a node for a member. Returns what was found, and a review of it if one is asked for and it fits."""
        decisions, pod, now = self._decisions, queued.pod_info, self._clock.now()
        is_asked_for = decisions.is_asked_for(pod, now)
        began = self._stopwatch() if is_asked_for else 0.0
        found = framework.schedule_pod(state, pod)
        if is_asked_for:
            decisions.took(self._stopwatch() - began, now, is_asked_for=True)
        if isinstance(found, Rejection):
            decisions.keep_details(queued, framework, state, found, now)
            return found, None
        return found, decisions.review(queued, framework, state, found, now) if is_asked_for else None

    def noted(self, plans: Iterable[Plan]) -> Noted:
        """Return what is to be explained of a gang that is rejected: by the plans of its pods, undone or not."""
        nodes = self._decisions.nodes
        fitted: dict[str, Fitted] = {}
        stopped_by = ""
        for plan in plans:
            looked_at = nodes if plan.within is None else len(plan.within.rows)
            for each in plan.placed.undone or plan.placed:
                if each.feasible:  # 0: it fits once pods have left that it preempts
                    details = each.review.details if isinstance(each.review, DecisionRecord) else None
                    fitted[each.queued.uid] = Fitted(each.node_name, looked_at, each.feasible, details)
            stopper = plan.fault or next(iter(plan.failed), None)
            if stopper is not None and (not stopped_by or plan.fault is not None):
                stopped_by = stopper.queued.uid
        return Noted(fitted, stopped_by)

    def placed(self, members: Iterable[Placed], within: Confinement | None) -> None:
        """Have reviews kept of members whose placement is recorded next. `within`: the nodes that were looked at."""
        self._decisions.looked_at = 0 if within is None else len(within.rows)
        self._decisions.reviewed = {each.queued.uid: each.review for each in members if each.review is not None}
