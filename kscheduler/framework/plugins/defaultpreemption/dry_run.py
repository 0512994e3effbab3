"""Finds the pods that would have to leave a node so that a pod fits there, without evicting any.

The rule, for one node: (1) all pods of lower priority are removed; (2) if the pod does not fit even then, the node is
no candidate; (3) the pods are put back one by one if the pod still fits, first those whose eviction would violate a
PodDisruptionBudget, then the others, the more important first. Those that could not be put back are the victims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, Findings
from kscheduler.framework.interface import Handle
from kscheduler.framework.preemption.candidates import candidate_of
from kscheduler.framework.preemption.importance import by_importance
from kscheduler.framework.preemption.sparing import spare
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class WhatIfDryRun:
    """A dry run on copies of nodes that calls all filters after each step, and so is right for any plugins.

    Faster forms must agree with it.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        findings = Findings(wanted)
        now = self._handle.evictions.wall()
        for node in nodes:
            findings.add(node.name, self.try_node(state, pod, node, now))
            if findings.is_enough:
                break
        return findings

    def try_node(self, state: CycleState, pod: PodInfo, node: NodeInfo, now: float) -> Candidate | Status:
        """Return the node as a candidate with its victims, or a status that states why evictions do not help there."""
        lower = [other for other in node.pods.values() if other.priority < pod.priority]
        if not lower:
            return NO_VICTIMS
        what_if = self._handle.profiles[state.decider or pod.pod.spec.scheduler_name].what_if(state, pod, node.name)
        # 1. All pods of lower priority leave.
        fault = _each(what_if.remove, lower)
        if fault is not None:
            return fault
        # 2. Does it help at all?
        status = what_if.fits()
        if status is not None:
            return status
        # 3. Pods come back where the pod still fits.
        stops = self._handle.release.stops_at_overdrawn_budget
        violating, others = split(by_importance(lower, now), self._handle.budgets, stops_at_overdrawn=stops)

        def fits() -> bool:
            return what_if.fits() is None

        unspared = spare(what_if, violating, fits)
        if isinstance(unspared, Status):
            return unspared
        victims = spare(what_if, others, fits)
        if isinstance(victims, Status):
            return victims
        return candidate_of(node.name, unspared, victims, now)


def _each(step: Callable[[PodInfo], Status | None], pods: Sequence[PodInfo]) -> Status | None:
    """Call `step` with each pod in order, and return the first status that is a fault, if any."""
    for pod in pods:
        fault = step(pod)
        if fault is not None:
            return fault
    return None
