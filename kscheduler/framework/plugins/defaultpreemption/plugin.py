"""DefaultPreemption at its extension points: PostFilter finds and evicts victims, PreEnqueue gates the preemptor."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.config.types import DefaultPreemptionArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.events import ASSIGNED_POD_DELETE, ClusterEvent, Registration
from kscheduler.framework.extender_verdict import NodeVictims, Proposal
from kscheduler.framework.interface import Handle, PostFilterResult, PostFilterSteps
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS, DryRun
from kscheduler.framework.plugins.defaultpreemption.dry_run_compiled import CompiledDryRun
from kscheduler.framework.preemption.candidates import Candidate, Findings, cheapest
from kscheduler.framework.preemption.executor import Executor, is_ending_for_preemption
from kscheduler.framework.status import Code, Status, error_status, unresolvable, unschedulable
from kscheduler.framework.verdict_statuses import NodeStatuses
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

NAME = "DefaultPreemption"
NEVER = "Never"
POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_ENDING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
UNDER_WAY = unresolvable("waiting for the preemption for this pod to be finished").of(NAME)

NO_CANDIDATE = "no candidate node for preemption"
PODS_CHANGED = "pods came or went while extenders were asked"

_Answer = tuple[PostFilterResult | None, Status | None]
_CLEARED = PostFilterResult("")
_NOT_TRIED = unresolvable(NOT_HELPFUL)


@dataclass(frozen=True, slots=True)
class _Chance:
    """A pod that may preempt, with the nodes where evictions would make room, and the victims on each."""

    pod: PodInfo
    candidates: Sequence[Candidate]


class DefaultPreemption:
    """Finds pods whose eviction makes room for a pod that fits nowhere, and evicts them.

    `dry_run` finds the victims. By default kernels do so, and where they cannot, the filters on copies of nodes.
    """

    name = NAME

    def __init__(self, handle: Handle, args: DefaultPreemptionArgs, dry_run: DryRun | None = None) -> None:
        self._handle = handle
        self._args = args
        self._dry_run = dry_run or CompiledDryRun(handle)
        self._executor = Executor(handle, NAME)
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

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]
    ) -> tuple[PostFilterResult | None, Status | None]:
        self._handle.evictions.attempted()
        found = self._look_for_victims(state, pod, statuses)
        return _worded(self._carry_out(found) if isinstance(found, _Chance) else found)

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        """Propose to the extenders the victims that `post_filter` would find, then preempt on a node they accepted.

        A generator: it yields the victims by node, and is sent those that remain after the extenders' answers.
        """
        self._handle.evictions.attempted()
        found = self._look_for_victims(state, pod, statuses)
        if not isinstance(found, _Chance):
            return _worded(found)
        pods_by_node = {each.node_name: self._pods_on(each.node_name) for each in found.candidates}
        kept = yield tuple(NodeVictims(each.node_name, each.victims, each.violations) for each in found.candidates)
        if isinstance(kept, Status):
            return _worded((None, kept))
        return _worded(self._carry_out_kept(found.pod, kept, pods_by_node))

    def _look_for_victims(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> _Chance | _Answer:
        # 1. The pod as it is now, and whether it may preempt.
        current = self._handle.evictions.current(pod.key)
        if current is None or current.metadata.uid != pod.uid:
            return None, error_status(f'pod "{pod.pod.metadata.name}" not found')
        if current is not pod.pod:
            pod = PodInfo(current, self._handle.release.sums_resizes_apart)
        ineligible = self._why_ineligible(pod, statuses)
        if ineligible:
            return None, unschedulable(ineligible)
        # 2. Where it would help, and which pods it would evict there.
        if self._is_least(pod):
            return _CLEARED, unschedulable(self._without_victims(statuses))
        findings = self._search(state, pod, statuses)
        candidates = findings.candidates
        if not candidates:
            return self._no_candidate(findings)
        return _Chance(pod, candidates)

    def _carry_out(self, chance: _Chance) -> _Answer:
        # 3. The cheapest of them.
        pod, best = chance.pod, cheapest(chance.candidates, self._handle.evictions.wall())
        _log_choice(pod, best)
        # 4. Carry it out.
        self._executor.start(best, pod)
        return PostFilterResult(best.node_name), self._report(best)

    def _report(self, best: Candidate) -> Status | None:
        """Return a success that says for the pod's condition and Event what was chosen, in a release that does so."""
        if not self._handle.release.reports_preemption:
            return None
        victims = len(best.victims)
        return Status(
            Code.SUCCESS,
            (f"found a potential placement for pod on node {best.node_name}, preempting {victims} victims",),
        )

    def _carry_out_kept(self, pod: PodInfo, kept: Proposal, pods_by_node: Mapping[str, frozenset[str]]) -> _Answer:
        """Preempt on the best of the nodes that the extenders accepted.

        Nodes whose pods have changed since the proposal are left out.
        """
        current = self._handle.evictions.current(pod.key)
        if current is None or current.metadata.uid != pod.uid:
            return None, error_status(f'pod "{pod.pod.metadata.name}" not found')
        candidates = [
            Candidate(each.node_name, each.pods, each.violations)
            for each in kept
            if each.node_name not in pods_by_node or self._pods_on(each.node_name) == pods_by_node[each.node_name]
        ]
        if not candidates:
            return None, unschedulable(NO_CANDIDATE if not kept else PODS_CHANGED)
        return self._carry_out(_Chance(pod, candidates))

    def _pods_on(self, node_name: str) -> frozenset[str]:
        """Return the uids of the pods on the node."""
        node = self._handle.table.get(node_name)
        return frozenset() if node is None else frozenset(node.pods)

    def _why_ineligible(self, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        if pod.pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER
        nominated = self._handle.table.get(self._nominated_node(pod))
        if nominated is None or _code_at(nominated.name, statuses) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        for other in nominated.pods.values():
            if other.priority < pod.priority and self._is_ending(other.pod):
                return VICTIM_ENDING
        return ""

    def _is_ending(self, pod: Pod) -> bool:
        return is_ending_for_preemption(pod) or self._executor.has_ended(pod)

    def _nominated_node(self, pod: PodInfo) -> str:
        """Return the name of the pod's nominated node; `nominations` know it before the pod's status does."""
        return self._handle.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name

    def _is_least(self, pod: PodInfo) -> bool:
        """Return True if no pod on any node has a lower priority, which holds for most pods that fit nowhere."""
        lowest = self._handle.table.lowest_priority
        return lowest is None or lowest >= pod.priority

    def _without_victims(self, statuses: Mapping[str, Status]) -> str:
        """Return the message for a pod that cannot preempt because no pod on any node has a lower priority.

        It is the message with which the dry runs, which are left out, would have ended.
        """
        if isinstance(statuses, NodeStatuses):
            tried = sum(nodes for status, nodes in statuses.counts() if status.code is Code.UNSCHEDULABLE)
        else:
            tried = len(self._promising(statuses))
        diagnosis = Diagnosis(len(self._handle.table))
        for status, nodes in ((NO_VICTIMS, tried), (_NOT_TRIED, diagnosis.total_nodes - tried)):
            if nodes:
                diagnosis.count(status, nodes)
        return diagnosis.message()

    def _search(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> Findings:
        nodes = self._promising(statuses)
        if not nodes:
            return Findings(0)
        start = self._handle.rng.randrange(len(nodes))
        return self._dry_run.search(state, pod, nodes[start:] + nodes[:start], self._candidates_wanted(len(nodes)))

    def _promising(self, statuses: Mapping[str, Status]) -> list[NodeInfo]:
        """Return the nodes that reject the pod for a reason that evictions may remove."""
        if isinstance(statuses, NodeStatuses):
            return statuses.nodes_with(Code.UNSCHEDULABLE)
        table = self._handle.table
        named = (name for name, status in statuses.items() if status.code is Code.UNSCHEDULABLE)
        return [node for name in named if (node := table.get(name)) is not None]

    def _candidates_wanted(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)

    def _no_candidate(self, findings: Findings) -> tuple[PostFilterResult | None, Status]:
        faults = [status for status in findings.statuses.values() if status.code is Code.ERROR]
        if faults:
            return None, error_status(_joined(faults), faults[0].error)
        total = len(self._handle.table)
        diagnosis = Diagnosis(total)
        # Nodes with the same reason mostly share its status: counted by object, they are few.
        shared = {id(status): status for status in findings.statuses.values()}
        for identity, nodes in Counter(map(id, findings.statuses.values())).items():
            diagnosis.count(shared[identity], nodes)
        untried = total - len(findings.statuses)
        if untried:
            diagnosis.count(_NOT_TRIED, untried)
        return _CLEARED, unschedulable(diagnosis.message())


def _worded(answer: _Answer) -> _Answer:
    result, status = answer
    if status is not None:
        status = Status(status.code, (f"preemption: {status.message}",), NAME, status.error)
    return result, status


def _never(pod: Pod, old: object, new: object) -> bool:
    return False


def _code_at(node_name: str, statuses: Mapping[str, Status]) -> Code:
    """Return the code of a node's status.

    Evictions do not help on a node that was not examined, as in kube-scheduler.
    """
    status = statuses.get(node_name)
    return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if status is None else status.code


def _joined(faults: Sequence[Status]) -> str:
    """Join error messages as Go's aggregated errors do, each text once."""
    texts = list(dict.fromkeys(fault.message for fault in faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _log_choice(pod: PodInfo, best: Candidate) -> None:
    log.info("preemption chose a node", extra={"pod": pod.key, "node": best.node_name, "victims": len(best.victims)})
