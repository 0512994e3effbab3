"""Plans composite groups as kube-scheduler 1.37 does with the gate CompositePodGroup: trees of groups, placed as one.

The groups of a composite group are planned one after the other, each beside those before it; a group that does not
fit is given up, and the composite group holds if enough of its groups do. It is planned in each of its placements, like
a PodGroup, and its groups have their own placements within it. Source: the functions about composite pod groups in
pkg/scheduler/schedule_one_podgroup.go of that release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.framework.status import Code, Status, error_status, unschedulable
from kscheduler.gangs.domains import Domain
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.placements import Available, DomainUnknown, Placements
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.texts import (
    GROUP_UNSCHEDULABLE,
    NO_PLACEMENTS,
    child_failed,
    minimum_out_of_reach,
    no_placement_available,
    other_pod_failed,
)
from kscheduler.gangs.tracked_gang import TrackedGang, TrackedTree
from kscheduler.gangs.undo_log import Placed, UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo

SUCCESS = Status(Code.SUCCESS)


class Verdict:
    """What a group says of its attempt. Groups may share one, as in kube-scheduler: what is added to it, all say."""

    __slots__ = ("status",)

    def __init__(self, status: Status) -> None:
        self.status = status

    @property
    def is_success(self) -> bool:
        return self.status.code is Code.SUCCESS

    @property
    def is_fault(self) -> bool:
        return self.status.code is Code.ERROR

    @property
    def first_text(self) -> str:
        """The text by which a composite group, or the message about placements, cites the verdict."""
        reasons = self.status.reasons
        return GROUP_UNSCHEDULABLE if GROUP_UNSCHEDULABLE in reasons[:1] else self.status.message

    def add(self, reason: str) -> None:
        self.status = Status(self.status.code, (*self.status.reasons, reason), error=self.status.error)


@dataclass(slots=True, eq=False)
class Result:
    """What came of one group of the tree."""

    tracked: TrackedGang
    verdict: Verdict
    plan: Plan | None = None  # of a PodGroup that was planned, undone unless it is in place
    members: Sequence[QueuedPodInfo] = ()  # of a PodGroup: those without a node
    placed: Sequence[Placed] = ()  # those that the plan found nodes for


Results = dict[GangKey, Result]


@dataclass(frozen=True, slots=True)
class _Tried(Available):
    results: Results


@dataclass(slots=True)
class TreePlan(Plan):
    """The plan of all members of a tree. `results`: of each group of it; if nothing is placed, why."""

    results: Results = field(default_factory=dict)

    def root(self, tree: TrackedTree) -> Verdict:
        return self.results[tree.key].verdict


class Composites:
    def __init__(self, planner: Planner, placements: Placements) -> None:
        self._planner = planner
        self._placements = placements

    def plan(
        self, tree: TrackedTree, members: Sequence[QueuedPodInfo], of_leaves: Mapping[str, GangKey], *, on_trial: bool
    ) -> TreePlan:
        """Plan the members of a tree. Of a plan that does not hold it, nothing is placed.

        `of_leaves`: pod uid of a member -> the PodGroup that it is in.
        """
        by_leaf: dict[GangKey, list[QueuedPodInfo]] = {}
        for queued in members:
            by_leaf.setdefault(of_leaves[queued.uid], []).append(queued)
        profile = members[0].pod_info.pod.spec.scheduler_name
        plan = TreePlan(UndoLog(self._planner.cache, self._planner.nominations), is_trial=on_trial)
        plan.placed.lift(members)
        run = _Run(self._planner, self._placements, by_leaf, profile, on_trial=on_trial)
        try:
            root, in_place = run.group(tree, None, plan.results)
            run.undo(in_place)
            found = [placed for leaf in in_place for placed in leaf.placed]
            if root.verdict.is_success and found:
                self._planner.place_again(plan, members, found)
            elif root.verdict.is_success:  # at least one pod is needed
                root.verdict = Verdict(unschedulable(GROUP_UNSCHEDULABLE))
        except BaseException:
            plan.placed.undo()
            raise
        _complete(tree, plan.results, Verdict(SUCCESS), by_leaf)
        return plan


def _complete(
    tracked: TrackedGang, results: Results, above: Verdict, by_leaf: Mapping[GangKey, Sequence[QueuedPodInfo]]
) -> None:
    """Give each group of a tree a result: one that was not looked at, or that holds in vain, says what that above says.

    `above`: the verdict of the composite group above it.
    """
    result = results.get(tracked.key)
    if result is None or (result.verdict.is_success and not above.is_success):
        result = results[tracked.key] = Result(tracked, above, members=by_leaf.get(tracked.key, ()))
    if isinstance(tracked, TrackedTree):
        for child in tracked.in_order():
            _complete(child, results, result.verdict, by_leaf)


class _Run:
    """One attempt to plan a tree."""

    def __init__(
        self,
        planner: Planner,
        placements: Placements,
        by_leaf: Mapping[GangKey, Sequence[QueuedPodInfo]],
        profile: str,
        *,
        on_trial: bool,
    ) -> None:
        self._planner = planner
        self._placements = placements
        self._by_leaf = by_leaf
        self._profile = profile
        self._on_trial = on_trial

    def group(self, tracked: TrackedGang, within: Domain | None, results: Results) -> tuple[Result, list[Result]]:
        """Plan a group. Returns its result, and those PodGroups of it that are in place."""
        try:
            if isinstance(tracked, TrackedTree):
                result, in_place = self._composite(tracked, within, results)
            else:
                result, in_place = self._leaf(tracked, within)
        except DomainUnknown as error:
            result, in_place = Result(tracked, Verdict(error_status(str(error)))), []
        results[tracked.key] = result
        return result, in_place

    def undo(self, in_place: Sequence[Result]) -> None:
        for leaf in reversed(in_place):
            assert leaf.plan is not None, "a PodGroup in place was planned"
            leaf.plan.placed.undo()

    # --- a PodGroup ---

    def _leaf(self, tracked: TrackedGang, within: Domain | None) -> tuple[Result, list[Result]]:
        members = self._by_leaf.get(tracked.key, ())
        plan = self._placements.plan_within(
            within, tracked, members, tracked.missing, self._profile, on_trial=self._on_trial
        )
        result = Result(tracked, Verdict(SUCCESS), plan, members, list(plan.placed))
        if plan.fault is not None:
            plan.placed.undo()
            fault = plan.fault.rejection.status
            result.verdict = Verdict(error_status(other_pod_failed(fault.message), fault.error))
            return result, []
        if plan.reasons is not None:
            result.verdict = Verdict(unschedulable(*plan.reasons))
            return result, []
        return result, [result]

    # --- a composite group ---

    def _composite(self, tree: TrackedTree, within: Domain | None, results: Results) -> tuple[Result, list[Result]]:
        places = self._placements.generate(tree, self._profile, within)
        if not places:
            return Result(tree, Verdict(unschedulable(NO_PLACEMENTS))), []
        first: Results = {}
        available: list[_Tried] = []
        for place in places:
            tried: Results = {}
            result, in_place = self._children(tree, place, tried)
            self.undo(in_place)
            if result.verdict.is_fault:
                return result, []
            first = first or tried
            if result.verdict.is_success:
                available.append(_Tried(place, [placed for leaf in in_place for placed in leaf.placed], tried))
        if not available:
            why = no_placement_available(len(places), first[tree.key].verdict.first_text)
            first[tree.key].verdict = Verdict(unschedulable(GROUP_UNSCHEDULABLE, why))
            results.update(first)
            return first[tree.key], []
        best = available[self._placements.best(tree, self._profile, available)].results
        in_place = [leaf for leaf in _holding(tree, best) if leaf.plan is not None]
        for leaf in in_place:
            assert leaf.plan is not None
            self._planner.place_again(leaf.plan, leaf.members, leaf.placed)
        results.update(best)
        return best[tree.key], in_place

    def _children(self, tree: TrackedTree, place: Domain | None, results: Results) -> tuple[Result, list[Result]]:
        """Plan the groups of a composite group in one placement of it."""
        children, least = tree.in_order(), tree.min_members
        held, in_place = 0, []
        verdict = Verdict(SUCCESS)
        for at, child in enumerate([*children, None]):
            if held + len(children) - at < least:
                verdict = Verdict(unschedulable(minimum_out_of_reach(least, held, len(children) - at)))
            if child is None or not verdict.is_success:
                break
            result, leaves = self.group(child, place, results)
            if result.verdict.is_fault:
                fault = result.verdict.status
                verdict = Verdict(error_status(child_failed(fault.message), fault.error))
                break
            in_place += leaves
            held += result.verdict.is_success
        if not verdict.is_success:
            self.undo(in_place)
            in_place = []
        result = results[tree.key] = Result(tree, verdict)
        return result, in_place


def _holding(tree: TrackedTree, results: Results) -> Iterator[Result]:
    """Iterate over the PodGroups that hold, and of which all composite groups above do."""
    if not results[tree.key].verdict.is_success:
        return
    for child in tree.in_order():
        result = results.get(child.key)
        if result is None or not result.verdict.is_success:
            continue
        if isinstance(child, TrackedTree):
            yield from _holding(child, results)
        else:
            yield result
