"""Plans a gang: finds a node for as many members as possible, each with those before it counted.

All members are decided in one step, by kernels as far as they can decide, else one by one. The members that got a node
are assumed when the plan is made. If they are fewer than the gang needs, the plan is to be undone at once; then nobody
has seen it. A member is decided exactly as a pod by itself would be, except that it preempts nobody.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.cache.cache import Cache
from kscheduler.framework.compiled_lane import CompiledLane
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.gangs.domains import Domain
from kscheduler.gangs.undo_log import Placed, UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

MOST_PODS = 256  # that the kernels are asked for in one call
MOST_KINDS = 8  # of members, whose room is counted; gangs have one or two
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
    within: Confinement | None = None  # the only nodes that were looked at
    # Of a gang that must be in one domain of nodes, and is in none.
    refusal: str = ""  # why; "": that is not what keeps it from being placed
    domains: Sequence[Domain] = ()  # where evictions may help
    # Of a group that no placement of kube-scheduler's holds; it is undone.
    reasons: tuple[str, ...] | None = None  # why; None: another plan
    had_node: Set[str] = frozenset()  # uids of the members that were placed
    shared: CycleState = field(default_factory=CycleState)  # by the cycles of all members

    def reaches(self, missing: int) -> bool:
        """Return whether at least so many members are placed, and no search met a fault."""
        return self.fault is None and len(self.placed) >= missing


class ReviewsMembers(Protocol):
    """Decides members so that it can be explained where they went (`MemberReviews`)."""

    def first_asked_for(self, members: Sequence[QueuedPodInfo]) -> int: ...

    def decide(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState
    ) -> tuple[Decision | Rejection, object | None]: ...


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
        self.cache = cache
        self._profiles = profiles
        self._lane = lane
        self._asks_again = asks_again
        self.nominations = nominations
        self.reviews: ReviewsMembers | None = None  # of members that are to be explained; None: of none

    def plan(
        self,
        members: Sequence[QueuedPodInfo],
        missing: int,
        *,
        on_trial: bool = False,
        most: int | None = None,
        within: Confinement | None = None,
    ) -> Plan:
        """Place the members in order.

        Ends early once fewer than `missing` can be placed any more. Afterwards the caller must commit what is placed or
        undo it, before anything else happens. If this raises, nothing is placed.

        `on_trial`: the caller will undo it in any case, and the cycle states of members for which Reserve plugins run
        say so (`TRIAL`). `most`: so many members are enough; None: all are tried. `within`: the only nodes that members
        may be placed on.
        """
        plan = Plan(UndoLog(self.cache, self.nominations), is_trial=on_trial, within=within)
        if self._asks_again:
            plan.placed.lift(members)  # kube-scheduler counts no nominations of members of a group in flight
        try:
            self._confine(within)
            self._place_all(plan, members, missing, len(members) if most is None else most)
        except BaseException:
            plan.placed.undo()
            raise
        finally:
            self._confine(None)
        return plan

    def _confine(self, within: Confinement | None) -> None:
        if self._lane is not None:
            self._lane.confine(within)

    def place_again(self, plan: Plan, members: Sequence[QueuedPodInfo], placed: Sequence[Placed]) -> None:
        """Assume members again where a plan had placed them before it was undone; nothing may have changed since.

        `members`: all that it was a plan of.
        """
        if self._asks_again:
            plan.placed.lift(members)
        for each in placed:
            self.cache.assume(_as_placed(each), each.node_name)
            plan.placed.add([each])
            rejection = self._reserve(plan, each)
            if rejection is not None:
                self._fail(plan, Failed(each.queued, rejection, has_node=True))

    def add_room(self, pod: PodInfo, domain_by_row: array[int], room: array[int]) -> bool:
        """Add how many pods like this one each domain has room for; see `CompiledLane.add_room`."""
        return self._lane is not None and self._lane.add_room(pod, domain_by_row, room)

    def _place_all(self, plan: Plan, members: Sequence[QueuedPodInfo], missing: int, most: int) -> None:
        known: dict[object, Rejection] = {}  # look of members that fit nowhere -> why
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
            look = self._look(queued)
            rejection = None if look is None else known.get(look)
            if rejection is None:
                rejection = self._place_alone(plan, queued)
                if rejection is None and self._asks_again:
                    known.clear()
                elif rejection is not None and look is not None:
                    known[look] = rejection
            if rejection is not None:
                self._fail(plan, Failed(queued, rejection))
        plan.not_tried = members[at:]

    def _look(self, queued: QueuedPodInfo) -> object | None:
        """Return what members have in common of which all fit nowhere if one does; None for one that is like no other.

        A member with a node kept for it is not like one without.
        """
        pod = queued.pod_info
        if self.nomination_of(queued) or not self.is_plain(pod):
            return None
        return pod.signature, pod.priority

    def kinds(self, members: Sequence[QueuedPodInfo]) -> list[tuple[QueuedPodInfo | None, int]]:
        """Return one of each kind of equal members, with their number; None in its place for those of further kinds."""
        kinds: dict[object, list[QueuedPodInfo]] = {}
        for queued in members:
            kinds.setdefault(self.kind_of(queued), []).append(queued)
        largest = sorted(kinds.values(), key=len, reverse=True)
        counted: list[tuple[QueuedPodInfo | None, int]] = [(equal[0], len(equal)) for equal in largest[:MOST_KINDS]]
        others = sum(map(len, largest[MOST_KINDS:]))
        return [*counted, (None, others)] if others else counted

    def kind_of(self, queued: QueuedPodInfo) -> object:
        """Return what equal members have in common."""
        pod = queued.pod_info
        if pod.signature is None and self._lane is not None:
            self._lane.sign(pod)
        return pod.uid if pod.signature is None else pod.signature

    def most_that_fit(self, members: Sequence[QueuedPodInfo], within: Confinement) -> int:
        """Return how many members there is room for within some nodes, at most; all of a kind that is not known."""
        return self.most_by_domain(members, array("i", [mark - 1 for mark in within.inside]), 1)[0]

    def most_by_domain(
        self, members: Sequence[QueuedPodInfo], domain_by_row: array[int], domains: int
    ) -> Sequence[int]:
        """Return how many members each domain has room for, at most; all of a kind that is not known."""
        most = [0] * domains
        for queued, equal in self.kinds(members):
            room = array("q", bytes(8 * domains))
            if queued is None or not self.add_room(queued.pod_info, domain_by_row, room):
                most = [before + equal for before in most]
            else:
                most = [before + min(fits, equal) for before, fits in zip(most, room, strict=True)]
        return most

    def nomination_of(self, queued: QueuedPodInfo) -> str:
        """Return the node that a waiting member is nominated to; "" for none."""
        own = "" if self.nominations is None else self.nominations.node_of(queued.uid)
        return own or queued.pod_info.pod.status.nominated_node_name

    def is_plain(self, pod: PodInfo) -> bool:
        """Return True if the pod is without terms: only pods on a node decide whether it fits there."""
        return self._lane is not None and self._lane.is_plain(pod)

    def _place_run(self, plan: Plan, members: Sequence[QueuedPodInfo]) -> int:
        """Place leading members by kernels, and return how many."""
        if self._lane is None:
            return 0
        if self.reviews is not None and not plan.is_trial:
            members = members[: self.reviews.first_asked_for(members)]
            if not members:
                return 0
        pods = [queued.pod_info for queued in members]
        placements = self._lane.place_unless_broken(pods, self.cache.recount)
        if not placements:
            return 0
        count = len(placements)
        try:
            found = zip(members[:count], placements.node_names, placements.feasible, strict=True)
            placed = [self._placed(plan, *each) for each in found]
            self.cache.assume_counted(pods[:count], placements.rows, placements.node_names)
        except Exception:
            self.cache.recount()
            raise
        plan.placed.add(placed)
        self._lane.report(placements)
        for each in placed:
            rejection = self._reserve(plan, each)
            if rejection is not None:
                self._fail(plan, Failed(each.queued, rejection, has_node=True))
        return count

    def _placed(
        self,
        plan: Plan,
        queued: QueuedPodInfo,
        node_name: str,
        feasible: int,
        state: CycleState | None = None,
        review: object | None = None,
    ) -> Placed:
        pod = queued.pod_info
        framework = self._profiles[pod.pod.spec.scheduler_name]
        if framework.only_binds(pod):
            return Placed(queued, node_name, framework, feasible, None, review)
        state = state or CycleState()
        state.group = plan.shared
        if plan.is_trial:
            state.write(TRIAL, True)
        return Placed(queued, node_name, framework, feasible, state, review)

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
        state.skips_post_filter = True
        state.confinement, state.group = plan.within, plan.shared
        found, review = self._decide(plan, queued, framework, state)
        if isinstance(found, Rejection):
            return found
        rejection = self._assume(plan, queued, found.node_name, found.feasible, state, review)
        if rejection is not None:
            self._fail(plan, Failed(queued, rejection, has_node=True))
        return None

    def _decide(
        self, plan: Plan, queued: QueuedPodInfo, framework: Framework, state: CycleState
    ) -> tuple[Decision | Rejection, object | None]:
        """Search a node for a member, and review the search if that is asked for and the plan may be carried out."""
        if self.reviews is None or plan.is_trial:
            return framework.schedule_pod(state, queued.pod_info), None
        return self.reviews.decide(queued, framework, state)

    def _assume(
        self,
        plan: Plan,
        queued: QueuedPodInfo,
        node_name: str,
        feasible: int,
        state: CycleState,
        review: object | None = None,
    ) -> Rejection | None:
        """Assume a member and run Reserve. Returns why a plugin rejects it there; then it is taken back."""
        placed = self._placed(plan, queued, node_name, feasible, state, review)
        self.cache.assume(_as_placed(placed), node_name)
        plan.placed.add([placed])
        return self._reserve(plan, placed)

    @staticmethod
    def _fail(plan: Plan, failed: Failed) -> None:
        if failed.rejection.status.is_rejected:
            plan.failed.append(failed)
        elif plan.fault is None:
            plan.fault = failed


def _as_placed(placed: Placed) -> PodInfo:
    """Return a member as it counts on the node that was chosen for it."""
    pod, completing = placed.queued.pod_info, placed.framework.completing
    if completing is None or placed.state is None:
        return pod
    return completing.assumed(placed.state, pod, placed.node_name)
