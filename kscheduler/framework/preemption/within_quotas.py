"""Preemption by plugins that count what pods use: who may preempt, by what PreFilter left in the cycle state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import Handle, WhatIf
from kscheduler.framework.preemption.evaluator import NEVER, POLICY_NEVER, VICTIM_ENDING, Preemption, code_at
from kscheduler.framework.preemption.importance import by_importance
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Code, Status, unresolvable
from kscheduler.snapshot.pod_info import PodInfo

NOT_CHECKED = "not eligible due to failed to read from cycleState"
GROUP_TOO_SMALL = unresolvable("Evictions there would leave too few pods of a gang")


def _anything(victims: Sequence[PodInfo]) -> bool:
    return True


class QuotaPreemption(Preemption):
    """A pod may preempt if its PreFilter has run, and if no pod is leaving that it could have evicted for its node."""

    def __init__(self, handle: Handle, name: str) -> None:
        """`name`: of the plugin, under which its PreFilter leaves what it has counted in the cycle state."""
        super().__init__(handle, name)
        self._name = name

    def _could_evict(self, state: CycleState, other: PodInfo, pod: PodInfo) -> bool:
        """Return True if `other` is one that the pod could have chosen as a victim."""
        raise NotImplementedError

    def _why_ineligible(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        if pod.pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER
        if state.get(self._name, object) is None:
            return NOT_CHECKED
        if self._executor.is_running(pod.uid):  # kube-scheduler's evictions are over before the next attempt
            return VICTIM_ENDING
        nominated = self._handle.table.get(self._nominated_node(pod))
        if nominated is None or code_at(nominated.name, statuses) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        ending = (other for other in nominated.pods.values() if self._is_terminating(other))
        return VICTIM_ENDING if any(self._could_evict(state, other, pod) for other in ending) else ""

    def _together(
        self,
        found: Candidate | Status,
        what_if: WhatIf,
        pod: PodInfo,
        may_leave: Callable[[PodInfo], bool],
        may_take: Callable[[Sequence[PodInfo]], bool] = _anything,
    ) -> Candidate | Status:
        """Return the candidate with the pods that have to leave together with its victims, such as those of a gang.

        It is a status instead if they may not. `may_leave(other)`: whether the pod may evict another one after those
        before it have left; `may_take(victims)`: whether it may evict all of them. `what_if` is the copy of the node
        without the victims; it is changed.
        """
        groups = self._handle.victim_groups
        if groups is None or not isinstance(found, Candidate):
            return found
        further = groups.also_leaving(found.victims, pod)
        if further is None:
            return GROUP_TOO_SMALL
        if not further:
            return found
        for other, node in further:
            if not may_leave(other):
                return GROUP_TOO_SMALL
            fault = what_if.remove(other) if other.uid in what_if.pods else what_if.remove_elsewhere(other, node)
            if fault is not None:
                return fault
        victims = by_importance((*found.victims, *(other for other, _ in further)), self._handle.evictions.wall())
        if not may_take(victims):
            return GROUP_TOO_SMALL
        status = what_if.fits()
        if status is not None:
            return status
        violating, _ = split(victims, self._handle.budgets, stops_at_overdrawn=False)
        return Candidate(found.node_name, tuple(victims), len(violating))

    def _is_terminating(self, pod: PodInfo) -> bool:
        return pod.pod.metadata.deletion_timestamp is not None or self._executor.has_ended(pod.pod)
