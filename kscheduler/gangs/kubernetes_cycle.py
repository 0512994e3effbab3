"""A PodGroup's scheduling cycle as kube-scheduler 1.37 has it: the same checks, order and texts.

The members are placed as for any gang. What differs is when a group is rejected without a plan, and what its pods and
its condition say then, and how pods are evicted for it (`preemption.kubernetes`). Sources:
pkg/scheduler/schedule_one_podgroup.go and the plugin GangScheduling of that release.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from kscheduler.config.releases import Release
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.plugins.dynamicresources.plugin import NAME as DYNAMIC_RESOURCES
from kscheduler.framework.preemption.evaluator import NEVER
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Rejection
from kscheduler.framework.status import STATUS_LABELS, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.gangs.composites import Composites, Result, TreePlan
from kscheduler.gangs.gang_cycle import Ended, GangCycle
from kscheduler.gangs.gang_queue import Outcome
from kscheduler.gangs.mismatch import mismatch, preemption_policy
from kscheduler.gangs.placements import DomainUnknown, Placements
from kscheduler.gangs.planner import Failed, Plan
from kscheduler.gangs.preemption.kubernetes import InVain, KubernetesPreemption, PlanOf
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
from kscheduler.gangs.tracked_gang import Stage, TrackedGang, TrackedTree
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
        composites: Composites | None = None,
        **settings: Any,
    ) -> None:
        """`placements`: plans groups with the gate TopologyAwareWorkloadScheduling; None: it is off.

        `composites`: plans composite groups; None: there are none.
        """
        super().__init__(*parts, **settings)
        self._composites = composites
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
        if isinstance(tracked, TrackedTree):
            return self._plan_tree(tracked, members, missing)
        if self._placements is None:
            return super()._plan(tracked, members, missing)
        return self._placements.plan(tracked, members, missing)

    def _plan_tree(
        self, tree: TrackedTree, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool = False
    ) -> TreePlan:
        assert self._composites is not None, "composite groups are entries of the queue only if they are planned"
        of_leaves = {queued.uid: self._registry.members[queued.uid].tracked.key for queued in members}
        return self._composites.plan(tree, members, of_leaves, on_trial=on_trial)

    def _missing(self, tracked: TrackedGang) -> int:
        return tracked.missing

    def _fail(self, stand_in: StandIn, members: Sequence[QueuedPodInfo], fault: str, started: float) -> Ended:
        """Reject all members with a fault that was found before any of them was placed."""
        for queued in members:
            self._settle(queued, _rejection(error_status(fault), ""), started)
        tracked = self._registry.get(stand_in.gang_key)
        for leaf in tracked.leaves if isinstance(tracked, TrackedTree) else ():
            self._show(leaf, Outcome.FAULT, fault)
        self._return(stand_in, Outcome.FAULT, ())
        return Ended(Outcome.FAULT, fault)

    def _show(self, leaf: TrackedGang, outcome: Outcome, text: str) -> None:
        """Have the condition of a PodGroup of a composite group written."""
        if self._reports is not None:
            self._reports.show(leaf, outcome, text)

    def _commit(self, stand_in: StandIn, plan: Plan, missing: int, started: float) -> Ended:
        tracked = self._registry.get(stand_in.gang_key)
        if not (isinstance(plan, TreePlan) and isinstance(tracked, TrackedTree)):
            return super()._commit(stand_in, plan, missing, started)
        # 1. Permit plugins may reject members; none is bound before all have been asked.
        placed = len(plan.placed)
        held = self._hold(plan, started)
        self._return_failed(plan.failed, started)  # those that a Reserve plugin rejected in the end
        if len(held) < placed and not _is_held(tracked, {cycle.pod.uid for cycle in held}):
            self._note(plan)
            return self._give_up(stand_in, held, missing, started)
        # 2. The groups of the tree that do not hold say why, and so does each member without a node.
        for result in plan.results.values():
            if isinstance(result.tracked, TrackedTree):
                continue
            group = result.verdict.status
            if group.code is Code.SUCCESS:
                self._return_failed(() if result.plan is None else result.plan.failed, started)
                self._show(result.tracked, Outcome.PLACED, "")
            else:
                self._reject_leaf(result, group, group, waits=False, nominated={}, started=started)
                self._show(result.tracked, Outcome.REJECTED, group.message)
        # 3. Bind.
        self._remember(plan, held, started)
        for cycle in held:
            self._bind(cycle)
        self._return(stand_in, Outcome.PLACED, _failed_of(plan))
        return Ended(Outcome.PLACED)

    def _reject_leaf(
        self,
        result: Result,
        before: Status,
        group: Status,
        *,
        waits: bool,
        nominated: Mapping[str, str],
        started: float,
    ) -> None:
        """Reject the members of a PodGroup. `before`: the group's status before preemption, `group`: afterwards.

        `waits`: for room that is being made, with nominations of members.
        """
        plan = result.plan
        own = {} if plan is None else {each.queued.uid: each for each in plan.failed}
        had_node = frozenset() if plan is None else plan.had_node
        of_placed = group if waits else unschedulable(GROUP_UNSCHEDULABLE, group.message)
        for queued in result.members:
            if not self._queue.will_return(queued.uid):
                continue
            nomination = nominated.get(queued.uid)
            if queued.uid in own:
                self._settle(queued, _own_rejection(own[queued.uid], nomination), started)
            elif queued.uid in had_node:
                self._settle(queued, _rejection(of_placed, nomination if waits else ""), started)
            else:
                self._settle(queued, _rejection(before, nomination), started)

    def _return_failed(self, failed: Sequence[Failed], started: float) -> None:
        for each in failed:
            self._settle(each.queued, _own_rejection(each, None), started)

    def _reject(self, stand_in: StandIn, plan: Plan, missing: int, started: float) -> Ended:
        self._note(plan)
        placed = plan.had_node or {each.queued.uid for each in plan.placed}
        plan.placed.undo()
        tracked = self._registry.get(stand_in.gang_key)
        assert tracked is not None, "a gang in flight has members"
        own = {each.queued.uid: each for each in plan.failed}
        if plan.fault is not None:
            return self._end_with_fault(stand_in, plan, started)
        if isinstance(plan, TreePlan):
            assert isinstance(tracked, TrackedTree)
            return self._reject_tree(stand_in, tracked, plan, missing, started)
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

    def _plans_of(self, plan: Plan) -> Sequence[Plan]:
        if not isinstance(plan, TreePlan):
            return super()._plans_of(plan)
        return [result.plan for result in plan.results.values() if result.plan is not None]

    def _reject_tree(self, stand_in: StandIn, tree: TrackedTree, plan: TreePlan, missing: int, started: float) -> Ended:
        root, failed = plan.root(tree), _failed_of(plan)
        before = {key: result.verdict.status for key, result in plan.results.items()}
        outcome, waits = Outcome.REJECTED, False
        nominated: Mapping[str, str] = {}
        if root.is_fault:
            outcome = Outcome.FAULT
        else:
            plans = [result.plan for result in plan.results.values() if result.plan is not None]
            had_node = {uid for of_leaf in plans for uid in of_leaf.had_node}
            after, nominated = self._post_filter(stand_in, tree, plan, had_node, missing)
            waits = after.code is Code.SUCCESS
            if after.code is Code.ERROR:
                outcome = Outcome.FAULT
                root.status = after
            else:
                for result in plan.results.values():
                    result.verdict.add(after.message)
        for key, result in plan.results.items():
            if isinstance(result.tracked, TrackedTree):
                continue
            if outcome is Outcome.FAULT:
                for queued in result.members:
                    if self._queue.will_return(queued.uid):
                        self._settle(queued, _rejection(root.status, ""), started)
                self._show(result.tracked, outcome, root.status.message)
                continue
            group = result.verdict.status
            self._reject_leaf(result, before[key], group, waits=waits, nominated=nominated, started=started)
            self._show(result.tracked, outcome, group.message)
        self._return(stand_in, outcome, failed)
        return Ended(outcome, root.status.message, waits=waits)

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
                if self._has_constraint(tracked) or isinstance(tracked, TrackedTree):
                    continue
                if not placed and not _asked_about_claims(plan.failed, framework):
                    return error_status(CLAIMS_UNKNOWN), {}
                released = _release_claims(framework, plan, members, has_placed=tracked.placed > 0)
                if released.code is not Code.UNSCHEDULABLE:
                    return released, {}
                reasons += released.reasons
            elif name == DEFAULT_PREEMPTION:
                if preemption_policy(tracked, pods, is_of_group=self._policy_is_of_group) == NEVER:
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
        if isinstance(tracked, TrackedTree):
            plan = functools.partial(self._plan_tree, tracked)
        elif self._placements is not None:
            plan = functools.partial(self._placements.plan, tracked)
        found = self._group_preemption.preempt(stand_in.pod_info, priority, members, missing, placed, plan=plan)
        if not isinstance(found, InVain):
            return found
        status = _why_in_vain(tracked, found)
        self._group_preemption.evaluated(status.code, found.began)
        return status, {}


def _why_in_vain(tracked: TrackedGang, found: InVain) -> Status:
    """Return what preemption says of a group that does not fit even without all that it may evict."""
    fault = found.plan.fault
    if fault is not None:
        text = preemption_fault(other_pod_failed(fault.rejection.message))
        return error_status(text, fault.rejection.status.error)
    if isinstance(tracked, TrackedTree):
        assert isinstance(found.plan, TreePlan)
        root = found.plan.root(tracked).status
        if root.code is Code.ERROR:
            return error_status(preemption_fault(root.message), root.error)
        return unschedulable(f"{PREEMPTION}: {root.message}")
    trial = unschedulable(*_reasons(tracked, found.plan, found.placed))
    return unschedulable(f"{PREEMPTION}: {trial.message}")


def _failed_of(plan: TreePlan) -> list[Failed]:
    """Return the members of a tree that fitted nowhere, those of its first PodGroup first."""
    return [each for result in plan.results.values() if result.plan is not None for each in result.plan.failed]


def _is_held(tree: TrackedTree, held: Set[str]) -> bool:
    """Return whether enough groups of a tree hold with the members that are held, by uid, and those placed before."""
    counted = Counter(
        member.tracked.key
        for uid, member in tree.members.items()
        if uid in held or member.stage in (Stage.ASSUMED, Stage.BOUND)
    )
    return tree.holds(lambda leaf: counted[leaf.key] >= leaf.min_members)


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
