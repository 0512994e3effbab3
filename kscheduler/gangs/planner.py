"""Plans a gang: finds a node for as many members as possible, each with those before it counted.

All members are decided in one step, by kernels as far as they can decide, else one by one. The members that got a node
are assumed when the plan is made. If they are fewer than the gang needs, the plan is to be undone at once; then nobody
has seen it. A member is decided exactly as a pod by itself would be, except that it preempts nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.cache.cache import Cache
from kscheduler.framework.algorithm import Rejection
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.runtime import Framework
from kscheduler.gangs.undo_log import Placed, UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

MOST_PODS = 256  # that the kernels are asked for in one call
TRIAL = "Gangs/trial"  # in the cycle state of members that are placed on trial: True


@dataclass(frozen=True, slots=True)
class Failed:
    """A member that got no node, and why."""

    queued: QueuedPodInfo
    rejection: Rejection
    has_node: bool = False  # it fitted on one, and Reserve rejected it


@dataclass(slots=True)
class Plan:
    """Where a gang's members would go. The placed ones are assumed until `placed.undo()` is called."""

    placed: UndoLog
    failed: list[Failed] = field(default_factory=list)  # in the order in which they were tried
    not_tried: Sequence[QueuedPodInfo] = ()  # since those before them had failed
    fault: Failed | None = None  # a member whose search met a fault: none of the others was tried after it
    is_trial: bool = False  # it will be undone in any case
    shared: CycleState = field(default_factory=CycleState)  # by the cycles of all members

    def reaches(self, missing: int) -> bool:
        """Return whether at least so many members are placed, and no search met a fault."""
        return self.fault is None and len(self.placed) >= missing


class Planner:
    """Plans gangs on the cache. Without a compiled lane all members are decided one by one."""

    def __init__(
        self,
        cache: Cache,
        profiles: Mapping[str, Framework],
        lane: CompiledLane | None,
        *,
        asks_again: bool = False,
        nominations: Nominations | None = None,
    ) -> None:
        """Make a planner.

        `nominations`: those of waiting pods; a member that is placed has none until that is undone.

        `asks_again`: a member like one that fits nowhere is asked about by itself once more has been placed, since it
        may fail for other reasons then; else those of the first are repeated.
        """
        self._cache = cache
        self._profiles = profiles
        self._lane = lane
        self._asks_again = asks_again
        self._nominations = nominations

    def plan(
        self, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool = False, most: int | None = None
    ) -> Plan:
        """Place the members in order.

        Ends early once fewer than `missing` can be placed any more. Afterwards the caller must commit what is placed or
        undo it, before anything else happens. If this raises, nothing is placed.

        `on_trial`: the caller will undo it in any case, and the cycle states of members for which Reserve plugins run
        say so (`TRIAL`). `most`: so many members are enough; None: all are tried.
        """
        plan = Plan(UndoLog(self._cache, self._nominations), is_trial=on_trial)
        if self._asks_again:
            plan.placed.lift(members)  # kube-scheduler counts no nominations of members of a group in flight
        try:
            self._place_all(plan, members, missing, len(members) if most is None else most)
        except BaseException:
            plan.placed.undo()
            raise
        return plan

    def _place_all(self, plan: Plan, members: Sequence[QueuedPodInfo], missing: int, most: int) -> None:
        # Signature and priority of members that fit nowhere -> why.
        known: dict[object, Rejection | None] = {}
        at, window = 0, MOST_PODS
        while at < len(members) and plan.fault is None:
            # 1. Is the minimum out of reach?
            placed = len(plan.placed)
            if placed + len(members) - at < missing or placed >= most:
                break
            # 2. As many as the kernels can decide.
            asked = members[at : at + min(window, most - placed)]
            placed = self._place_run(plan, asked)
            at += placed
            window = min(2 * window, MOST_PODS) if placed == len(asked) else max(placed, 1)
            if placed:
                if self._asks_again:
                    known.clear()
                continue
            # 3. One by itself, unless an equal one has failed: what was placed since has left less room.
            queued = members[at]
            at += 1
            pod = queued.pod_info
            look = (pod.signature, pod.priority)
            rejection = known.get(look) if self.is_plain(pod) else None
            if rejection is None:
                rejection = known[look] = self._place_alone(plan, queued)
                if rejection is None and self._asks_again:
                    known.clear()
            if rejection is not None:
                self._fail(plan, Failed(queued, rejection))
        plan.not_tried = members[at:]

    def is_plain(self, pod: PodInfo) -> bool:
        """Return True if the pod is known to be without terms: only pods on a node decide whether it fits there."""
        return self._lane is not None and pod.signature is not None and self._lane.is_plain(pod)

    def _place_run(self, plan: Plan, members: Sequence[QueuedPodInfo]) -> int:
        """Place leading members by kernels, and return how many."""
        if self._lane is None:
            return 0
        pods = [queued.pod_info for queued in members]
        placements = self._lane.place_unless_broken(pods, self._cache.recount)
        if not placements:
            return 0
        count = len(placements)
        try:
            found = zip(members[:count], placements.node_names, placements.feasible, strict=True)
            placed = [self._placed(plan, *each) for each in found]
            self._cache.assume_counted(pods[:count], placements.rows, placements.node_names)
        except Exception:
            self._cache.recount()
            raise
        plan.placed.add(placed)
        self._lane.report(placements)
        for each in placed:
            rejection = self._reserve(plan, each)
            if rejection is not None:
                self._fail(plan, Failed(each.queued, rejection, has_node=True))
        return count

    def _placed(
        self, plan: Plan, queued: QueuedPodInfo, node_name: str, feasible: int, state: CycleState | None = None
    ) -> Placed:
        pod = queued.pod_info
        framework = self._profiles[pod.pod.spec.scheduler_name]
        if framework.only_binds(pod):
            return Placed(queued, node_name, framework, feasible, None)
        state = state or CycleState()
        state.group = plan.shared
        if plan.is_trial:
            state.write(TRIAL, True)
        return Placed(queued, node_name, framework, feasible, state)

    def _reserve(self, plan: Plan, placed: Placed) -> Rejection | None:
        """Run the Reserve plugins that have a say in a placed member. Takes it back if one of them rejects it."""
        if placed.state is None:
            return None
        status = placed.framework.run_reserve(placed.state, placed.queued.pod_info, placed.node_name)
        if status is None:
            return None
        plan.placed.take_back(placed)
        diagnosis = Diagnosis(1)
        diagnosis.blame(status)
        return Rejection(status, diagnosis)

    def _place_alone(self, plan: Plan, queued: QueuedPodInfo) -> Rejection | None:
        """Place one member, asking each plugin. Returns why no node fits; None if one does (Reserve may reject it)."""
        pod = queued.pod_info
        framework = self._profiles[pod.pod.spec.scheduler_name]
        state = CycleState()
        state.skips_post_filter, state.group = True, plan.shared
        found = framework.schedule_pod(state, pod)
        if isinstance(found, Rejection):
            return found
        rejection = self._assume(plan, queued, found.node_name, found.feasible, state)
        if rejection is not None:
            self._fail(plan, Failed(queued, rejection, has_node=True))
        return None

    def _assume(
        self, plan: Plan, queued: QueuedPodInfo, node_name: str, feasible: int, state: CycleState
    ) -> Rejection | None:
        """Assume a member and run Reserve. Returns why a plugin rejects it there; then it is taken back."""
        self._cache.assume(queued.pod_info, node_name)
        placed = self._placed(plan, queued, node_name, feasible, state)
        plan.placed.add([placed])
        return self._reserve(plan, placed)

    @staticmethod
    def _fail(plan: Plan, failed: Failed) -> None:
        if failed.rejection.status.is_rejected:
            plan.failed.append(failed)
        elif plan.fault is None:
            plan.fault = failed
