"""Has members of gangs decided so that it can be explained where they went: those for which somebody asks for that.

What a search found out about the nodes is lost once the next one begins, and a plan may be undone. So it is taken from
the search of each such member, and kept with the plan, until the gang is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kscheduler.clock import Clock
from kscheduler.explain.decisions import DecisionLog
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.gangs.undo_log import Placed
from kscheduler.queue.pod_info import QueuedPodInfo


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
        if not decisions.is_asked_for(pod, now):
            return framework.schedule_pod(state, pod), None
        began = self._stopwatch()
        found = framework.schedule_pod(state, pod)
        decisions.took(self._stopwatch() - began, now, is_asked_for=True)
        if isinstance(found, Rejection):
            return found, None
        return found, decisions.review(queued, framework, state, found, now)

    def placed(self, members: Iterable[Placed], within: Confinement | None) -> None:
        """Have reviews kept of members whose placement is recorded next. `within`: the nodes that were looked at."""
        self._decisions.looked_at = 0 if within is None else len(within.rows)
        self._decisions.reviewed = {each.queued.uid: each.review for each in members if each.review is not None}
