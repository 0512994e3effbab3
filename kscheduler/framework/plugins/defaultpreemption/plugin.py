"""DefaultPreemption at its extension points: PostFilter finds and evicts victims, PreEnqueue gates the preemptor."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from kscheduler.api.objects import Pod
from kscheduler.config.types import DefaultPreemptionArgs
from kscheduler.framework.cycle_state import WHY_NOT_PREEMPT, CycleState
from kscheduler.framework.dry_runs import DryRun, Findings
from kscheduler.framework.events import ASSIGNED_POD_DELETE, ClusterEvent, Registration
from kscheduler.framework.interface import Handle, PostFilterSteps
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.preemption.evaluator import (
    NEVER,
    POLICY_NEVER,
    VICTIM_ENDING,
    PostFilterAnswer,
    Preemption,
    code_at,
)
from kscheduler.framework.status import STATUS_LABELS, Code, Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

NAME = "DefaultPreemption"
UNDER_WAY = unresolvable("waiting for the preemption for this pod to be finished").of(NAME)


class DefaultPreemption(Preemption):
    """Finds pods whose eviction makes room for a pod that fits nowhere, and evicts them.

    `dry_run` finds the victims. By default kernels do so, and where they cannot, the filters on copies of nodes.
    """

    name = NAME

    def __init__(self, handle: Handle, args: DefaultPreemptionArgs, dry_run: DryRun | None = None) -> None:
        super().__init__(handle, NAME)
        self._args = args
        self._groups = handle.victim_groups
        self._dry_run = dry_run or CompiledDryRun(handle)
        if self._groups is not None:
            self._dry_run = self._groups.dry_run(self._dry_run)
        self.may_gate: Container[str] = self._executor.running

    # --- the queue ---

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        is_held = pod.uid in self.may_gate and self._executor.holds(pod.uid)
        return UNDER_WAY if is_held else None

    def events_to_register(self) -> Sequence[ClusterEvent | Registration]:
        """Register an event whose hint never requeues a pod.

        A pod held at PreEnqueue is requeued by the events of the plugins that rejected it.
        """
        return (Registration(ASSIGNED_POD_DELETE, _never),)

    # --- the cycle ---

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterAnswer:
        return _worded(super().post_filter(state, pod, statuses))

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        return _worded((yield from super().propose(state, pod, statuses)))

    def repetition(self, pod: PodInfo) -> Callable[[PodInfo], bool] | None:
        """Return how to repeat that no evictions make room for this pod; None if that may differ for an equal pod."""
        tried = self._failed_on
        if tried is None or self._groups is not None:
            return None
        evictions, rng = self._handle.evictions, self._handle.rng

        def repeats(other: PodInfo) -> bool:
            if evictions.current(other.key) is not other.pod:
                return False
            evictions.attempted()
            if self._is_measured:
                evictions.evaluated("pod", STATUS_LABELS[Code.UNSCHEDULABLE], 0.0)
            if tried:
                rng.randrange(tried)  # the node at which dry runs begin
            return True

        return repeats

    def _why_ineligible(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        why_not = None if state.group is None else state.group.get(WHY_NOT_PREEMPT, str)
        if why_not is not None:
            return why_not
        if pod.pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER
        nominated = self._handle.table.get(self._nominated_node(pod))
        if nominated is None or code_at(nominated.name, statuses) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        for other in nominated.pods.values():
            if self._priority_of(other) < pod.priority and self._is_ending(other.pod):
                return VICTIM_ENDING
        return ""

    def _priority_of(self, other: PodInfo) -> int:
        return other.priority if self._groups is None else self._groups.priority_of(other)

    def _is_least(self, pod: PodInfo) -> bool:
        """Return True if no pod on any node has a lower priority, which holds for most pods that fit nowhere."""
        if self._groups is not None and self._groups.may_outrank():
            return False
        lowest = self._handle.table.lowest_priority
        return lowest is None or lowest >= pod.priority

    def _why_in_vain(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        """Return the message for a pod that cannot preempt because no pod on any node has a lower priority.

        It is the message with which the dry runs, which are left out, would have ended.
        """
        return self._all_fail(NO_VICTIMS, self._count_promising(statuses)) if self._is_least(pod) else ""

    def _try_nodes(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only_best: bool) -> Findings:
        start = self._handle.rng.randrange(len(nodes))
        return self._dry_run.search(state, pod, [*nodes[start:], *nodes[:start]], self._candidates_wanted(len(nodes)))

    def _candidates_wanted(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)


def _worded(answer: PostFilterAnswer) -> PostFilterAnswer:
    result, status = answer
    if status is not None:
        status = Status(status.code, (f"preemption: {status.message}",), NAME, status.error)
    return result, status


def _never(pod: Pod, old: object, new: object) -> bool:
    return False
