"""Plans a PodGroup as kube-scheduler 1.36 does: every member is tried, and preempts as a pod by itself would.

A member for which pods are evicted takes the place of one that fits: the members after it are decided with it on the
node that it was nominated to, while its victims are still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.framework.confinement import Confinement
from kscheduler.framework.cycle_state import HAS_PLACED, WHY_NOT_PREEMPT, CycleState
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.gangs.planner import MOST_PODS, Failed, Plan, Planner
from kscheduler.gangs.undo_log import UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo


@dataclass(slots=True)
class MemberwisePlan(Plan):
    preempting: dict[str, Rejection] = field(default_factory=dict)  # pod uid of a placed member -> why it preempts
    asks_nobody: bool = False  # no PostFilter plugin is asked for members that fit nowhere
    nodes: Mapping[str, str] = field(default_factory=dict)  # of a plan that is undone: pod uid -> the node that it had


class MemberwisePlanner(Planner):
    def plan_each(
        self,
        members: Sequence[QueuedPodInfo],
        *,
        has_placed: bool = False,
        within: Confinement | None = None,
        why_not_preempt: str = "",
        on_trial: bool = False,
    ) -> MemberwisePlan:
        """Try all members in order; only a fault ends the plan early. `has_placed`: others had a node before.

        As after `plan`, what is placed is assumed. Evictions that have begun go on whatever becomes of the plan.
        `within`: the only nodes that members may be placed on. `why_not_preempt`: why no member preempts; "": they may.
        `on_trial`: the caller will undo it in any case, and no PostFilter plugin is asked.
        """
        plan = MemberwisePlan(UndoLog(self.cache, self.nominations), is_trial=on_trial, within=within)
        plan.asks_nobody = on_trial
        if has_placed:
            plan.shared.write(HAS_PLACED, True)
        if why_not_preempt:
            plan.shared.write(WHY_NOT_PREEMPT, why_not_preempt)
        plan.placed.lift(members)  # kube-scheduler counts no nominations of pods in flight
        at, window = 0, MOST_PODS
        try:
            self._confine(within)
            while at < len(members) and plan.fault is None:
                asked = members[at : at + window]
                placed = self._place_run(plan, asked)
                at += placed
                window = min(2 * window, MOST_PODS) if placed == len(asked) else max(placed, 1)
                if not placed:
                    self._try(plan, members[at])
                    at += 1
        except BaseException:
            plan.placed.undo()
            raise
        finally:
            self._confine(None)
        plan.not_tried = members[at:]
        return plan

    def _try(self, plan: MemberwisePlan, queued: QueuedPodInfo) -> None:
        state = CycleState()
        state.confinement, state.group = plan.within, plan.shared
        state.skips_post_filter = plan.asks_nobody
        framework = self._profiles[queued.pod_info.pod.spec.scheduler_name]
        found, review = self._decide(plan, queued, framework, state)
        if not isinstance(found, Rejection):
            rejection = self._assume(plan, queued, found.node_name, found.feasible, state, review)
        elif found.nomination and found.status.is_rejected:
            plan.is_trial = True  # whatever else is found, it will be undone
            rejection = self._assume(plan, queued, found.nomination, 0, state)
            if rejection is None:
                plan.preempting[queued.uid] = found
        else:
            self._fail(plan, Failed(queued, found))
            return
        if rejection is not None:
            self._fail(plan, Failed(queued, rejection, has_node=True))
