"""Preemption at PostFilter: where evictions would make room for a pod, the cheapest place, and the evictions.

A subclass says which pods may preempt, and which pods they may evict from a node.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.extender_verdict import NodeVictims, Proposal
from kscheduler.framework.interface import Handle, PostFilterResult, PostFilterSteps
from kscheduler.framework.preemption.candidates import cheapest
from kscheduler.framework.preemption.executor import Executor, is_ending_for_preemption
from kscheduler.framework.status import STATUS_LABELS, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.framework.verdict_statuses import NodeStatuses
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

NEVER = "Never"
POLICY_NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_ENDING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_CANDIDATE = "no candidate node for preemption"
PODS_CHANGED = "pods came or went while extenders were asked"

PostFilterAnswer = tuple[PostFilterResult | None, Status | None]
CLEARED = PostFilterResult("")
NOT_TRIED = unresolvable(NOT_HELPFUL)


@dataclass(frozen=True, slots=True)
class _Chance:
    """A pod that may preempt, with the nodes where evictions would make room, and the victims on each."""

    pod: PodInfo
    candidates: Sequence[Candidate]


class Preemption:
    """Finds pods whose eviction makes room for a pod that fits nowhere, and evicts them."""

    def __init__(self, handle: Handle, name: str) -> None:
        self._handle = handle
        self._executor = Executor(handle, name)
        self._is_measured = handle.release.measures_preemptors
        # On how many nodes the dry runs of the latest search were in vain, all of them. None: there are victims, there
        # was a fault, or the reason is the pod's own.
        self._failed_on: int | None = None

    # --- what a subclass decides ---

    def _why_ineligible(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        """Return the reason why the pod may not preempt now; "" if it may."""
        raise NotImplementedError

    def _try_nodes(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], only_best: bool) -> Findings:
        """Return the nodes on which evictions would make room, with their victims; `nodes` is never empty.

        `only_best`: candidates that are not the cheapest may be left out.
        """
        raise NotImplementedError

    def _why_in_vain(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> str:
        """Return the message with which all dry runs would end, if that is known without them; else ""."""
        return ""

    # --- the cycle ---

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterAnswer:
        self._handle.evictions.attempted()
        began = self._handle.stopwatch() if self._is_measured else 0.0
        found = self._look_for_victims(state, pod, statuses, only_best=True)
        if self._is_measured:
            self._evaluated(None if isinstance(found, _Chance) else found[1], began)
        return self._carry_out(found) if isinstance(found, _Chance) else found

    def propose(self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status]) -> PostFilterSteps:
        """Propose to the extenders the victims that `post_filter` would find, then preempt on a node they accepted.

        A generator: it yields the victims by node, and is sent those that remain after the extenders' answers.
        """
        self._handle.evictions.attempted()
        began = self._handle.stopwatch() if self._is_measured else 0.0
        found = self._look_for_victims(state, pod, statuses, only_best=False)
        if not isinstance(found, _Chance):
            if self._is_measured:
                self._evaluated(found[1], began)
            return found
        pods_by_node = {each.node_name: self._pods_on(each.node_name) for each in found.candidates}
        kept = yield tuple(NodeVictims(each.node_name, each.victims, each.violations) for each in found.candidates)
        if self._is_measured:
            self._evaluated(kept if isinstance(kept, Status) else None, began)
        if isinstance(kept, Status):
            return None, kept
        return self._carry_out_kept(found.pod, kept, pods_by_node)

    def _evaluated(self, status: Status | None, began: float) -> None:
        """Report the search for victims that began then. `status`: None if there are some."""
        code = Code.SUCCESS if status is None else status.code
        self._handle.evictions.evaluated("pod", STATUS_LABELS[code], self._handle.stopwatch() - began)

    def _look_for_victims(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status], *, only_best: bool
    ) -> _Chance | PostFilterAnswer:
        self._failed_on = None
        # 1. The pod as it is now, and whether it may preempt.
        current = self._handle.evictions.current(pod.key)
        if current is None or current.metadata.uid != pod.uid:
            return None, error_status(f'pod "{pod.pod.metadata.name}" not found')
        if current is not pod.pod:
            pod = PodInfo(current, self._handle.release.sums_resizes_apart)
        ineligible = self._why_ineligible(state, pod, statuses)
        if ineligible:
            self._failed_on = 0 if ineligible == POLICY_NEVER else None
            return None, unschedulable(ineligible)
        # 2. Where it would help, and which pods it would evict there.
        in_vain = self._why_in_vain(state, pod, statuses)
        if in_vain:
            self._failed_on = 0
            return CLEARED, unschedulable(in_vain)
        findings = self._search(state, pod, statuses, only_best)
        candidates = findings.candidates
        if not candidates:
            return self._no_candidate(findings)
        return _Chance(pod, candidates)

    def _carry_out(self, chance: _Chance) -> PostFilterAnswer:
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

    def _carry_out_kept(
        self, pod: PodInfo, kept: Proposal, pods_by_node: Mapping[str, frozenset[str]]
    ) -> PostFilterAnswer:
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

    def _is_ending(self, pod: Pod) -> bool:
        return is_ending_for_preemption(pod) or self._executor.has_ended(pod)

    def _nominated_node(self, pod: PodInfo) -> str:
        """Return the name of the pod's nominated node; `nominations` know it before the pod's status does."""
        return self._handle.nominations.node_of(pod.uid) or pod.pod.status.nominated_node_name

    def _search(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, Status], only_best: bool = False
    ) -> Findings:
        nodes = self._promising(statuses)
        return self._try_nodes(state, pod, nodes, only_best) if nodes else Findings(0)

    def _promising(self, statuses: Mapping[str, Status]) -> list[NodeInfo]:
        """Return the nodes that reject the pod for a reason that evictions may remove."""
        if isinstance(statuses, NodeStatuses):
            return statuses.nodes_with(Code.UNSCHEDULABLE)
        table = self._handle.table
        named = (name for name, status in statuses.items() if status.code is Code.UNSCHEDULABLE)
        return [node for name in named if (node := table.get(name)) is not None]

    def _count_promising(self, statuses: Mapping[str, Status]) -> int:
        """Return how many nodes `_promising` would return."""
        if isinstance(statuses, NodeStatuses):
            return sum(nodes for status, nodes in statuses.counts() if status.code is Code.UNSCHEDULABLE)
        return len(self._promising(statuses))

    def _all_fail(self, status: Status, tried: int) -> str:
        """Return the message with which dry runs end that were tried on so many nodes, all with this status."""
        diagnosis = Diagnosis(len(self._handle.table))
        for each, nodes in ((status, tried), (NOT_TRIED, diagnosis.total_nodes - tried)):
            if nodes:
                diagnosis.count(each, nodes)
        return diagnosis.message()

    def _no_candidate(self, findings: Findings) -> tuple[PostFilterResult | None, Status]:
        faults = [status for status in findings.statuses.values() if status.code is Code.ERROR]
        if faults:
            return None, error_status(_joined(faults), faults[0].error)
        self._failed_on = len(findings.statuses)
        total = len(self._handle.table)
        diagnosis = Diagnosis(total)
        # Nodes with the same reason mostly share its status: counted by object, they are few.
        shared = {id(status): status for status in findings.statuses.values()}
        for identity, nodes in Counter(map(id, findings.statuses.values())).items():
            diagnosis.count(shared[identity], nodes)
        untried = total - len(findings.statuses)
        if untried:
            diagnosis.count(NOT_TRIED, untried)
        return CLEARED, unschedulable(diagnosis.message())


def code_at(node_name: str, statuses: Mapping[str, Status]) -> Code:
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
