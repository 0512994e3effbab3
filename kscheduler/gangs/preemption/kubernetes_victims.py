"""PodGroups as victims of a single pod's preemption, as kube-scheduler 1.37 has it.

A pod of a PodGroup has the group's priority, and a group that is disrupted as one leaves whole, wherever its pods are.
Source: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go of that release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, DryRun, Findings
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS
from kscheduler.framework.status import Status
from kscheduler.gangs.preemption.kubernetes_groups import KubernetesGroups
from kscheduler.gangs.preemption.unit_dry_run import Fault, Trial, Violations, candidate_of_units
from kscheduler.gangs.preemption.units import Order
from kscheduler.gangs.registry import Registry
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

NODES_AT_ONCE = 128


class KubernetesVictims:
    """`handle` must be set before a pod preempts."""

    handle: Handle

    def __init__(self, cache: Cache, registry: Registry) -> None:
        self._cache = cache
        self._registry = registry
        self._groups = KubernetesGroups(cache, registry)

    def priority_of(self, pod: PodInfo) -> int:
        return self._groups.priority_of(pod)

    def may_outrank(self) -> bool:
        return bool(self._registry.members)

    def is_member(self, pod: PodInfo) -> bool:
        return pod.uid in self._registry.members

    def dry_run(self, singly: DryRun) -> DryRun:
        return _GroupsDryRun(singly, self, self._cache, self._groups)

    def also_leaving(self, victims: Sequence[PodInfo], preemptor: PodInfo) -> Sequence[tuple[PodInfo, NodeInfo]] | None:
        """Return nobody: preemption within quotas is no part of kube-scheduler, and takes pods one by one."""
        return ()


class _GroupsDryRun:
    def __init__(self, singly: DryRun, victims: KubernetesVictims, cache: Cache, groups: KubernetesGroups) -> None:
        self._singly = singly
        self._victims = victims
        self._cache = cache
        self._groups = groups

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        if not self._victims.may_outrank():
            return self._singly.search(state, pod, nodes, wanted)
        findings = Findings(wanted)
        for node, outcome in self._outcomes(state, pod, nodes):
            findings.add(node.name, outcome)
            if findings.is_enough:
                break
        return findings

    def _outcomes(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> Iterator[tuple[NodeInfo, Candidate | Status]]:
        parts = (nodes[start : start + NODES_AT_ONCE] for start in range(0, len(nodes), NODES_AT_ONCE))
        for has_members, some in chain.from_iterable(groupby(part, self._groups.has_member_on) for part in parts):
            run = list(some)
            if has_members:
                for node in run:
                    yield node, self._try_node(state, pod, node)
                continue
            found = self._singly.search(state, pod, run, len(run))
            candidates = {each.node_name: each for each in found.candidates}
            for node in run:
                yield node, candidates.get(node.name) or found.statuses[node.name]

    def _try_node(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Candidate | Status:
        handle = self._victims.handle
        units = self._groups.units([node], pod.priority)
        if not units:
            return NO_VICTIMS
        profile = handle.profiles[state.decider or pod.pod.spec.scheduler_name]
        trial = Trial(self._cache, profile.what_if(state, pod, node.name), node)
        stops = handle.release.stops_at_overdrawn_budget
        order = Order(handle.budgets, handle.evictions.wall(), stops_at_overdrawn=stops)
        try:
            for unit in units:
                trial.take(unit.pods)
            status = trial.why_not()
            if status is not None:
                return status
            violations = Violations(order, units, handle.budgets, stops_at_overdrawn=stops)
            return candidate_of_units(node, trial.give_back(violations.first(units)), order, violations)
        except Fault as fault:
            return fault.status
