"""Preemption by plugins that count what pods use: who may preempt, by what PreFilter left in the cycle state."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.evaluator import NEVER, POLICY_NEVER, VICTIM_ENDING, Preemption, code_at
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo

NOT_CHECKED = "not eligible due to failed to read from cycleState"


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

    def _is_terminating(self, pod: PodInfo) -> bool:
        return pod.pod.metadata.deletion_timestamp is not None or self._executor.has_ended(pod.pod)
