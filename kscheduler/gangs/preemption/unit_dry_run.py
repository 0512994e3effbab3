"""The dry run of a single pod's preemption on one node, where some pods are evicted only together, on many nodes.

The rule is that of DefaultPreemption, with units in the place of pods. Of a unit's pods on other nodes only the
plugins' counts learn that they leave, as in kube-scheduler: filters are asked about this node only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.cache.cache import Cache
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.interface import WhatIf
from kscheduler.framework.preemption.violations import split
from kscheduler.framework.status import Status, error_status
from kscheduler.gangs.preemption.units import Order, Unit, pods_of
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class Fault(Exception):
    """A plugin could not follow a move; `status` is the ERROR with which the dry run ends."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Trial:
    """A copy of a node from which units leave, and to which they come back."""

    def __init__(self, cache: Cache, what_if: WhatIf, node: NodeInfo) -> None:
        self._cache = cache
        self._what_if = what_if
        self._node = node
        self.moves = 0

    def take(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            node = self._node_of(pod)
            what_if = self._what_if
            self._moved(what_if.remove(pod) if node is self._node else what_if.remove_elsewhere(pod, node))

    def put_back(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            node = self._node_of(pod)
            self._moved(self._what_if.add(pod) if node is self._node else self._what_if.add_elsewhere(pod, node))

    def why_not(self) -> Status | None:
        """Return why the preemptor does not fit on the copy; None if it does."""
        return self._what_if.fits()

    def give_back(self, units: Iterable[Unit]) -> list[Unit]:
        """Put the units back one by one, each if the preemptor fits beside it. Returns those that stay away."""
        out = []
        for unit in units:
            self.put_back(unit.pods)
            if self.why_not() is not None:
                self.take(unit.pods)
                out.append(unit)
        return out

    def _node_of(self, pod: PodInfo) -> NodeInfo:
        state = self._cache.get(pod.uid)
        node = None if state is None else self._cache.table.get(state.node_name)
        return self._node if node is None else node

    def _moved(self, fault: Status | None) -> None:
        self.moves += 1
        if fault is not None:
            raise Fault(fault)


class Violations:
    """The pods of some units whose eviction violates a PodDisruptionBudget, if the more important ones go as well."""

    def __init__(
        self, order: Order, units: Iterable[Unit], budgets: DisruptionBudgets, *, stops_at_overdrawn: bool
    ) -> None:
        self._order = order
        violating, _ = split(pods_of(order.by_importance(units)), budgets, stops_at_overdrawn=stops_at_overdrawn)
        self._uids = {pod.uid for pod in violating}

    def first(self, units: Iterable[Unit]) -> list[Unit]:
        """Return the units in the order in which they come back: those that violate budgets before the others."""
        in_order = self._order.by_importance(units)
        return sorted(in_order, key=lambda unit: not any(pod.uid in self._uids for pod in unit.pods))

    def count(self, units: Iterable[Unit]) -> int:
        return sum(pod.uid in self._uids for pod in pods_of(units))


def candidate_of_units(node: NodeInfo, out: Sequence[Unit], order: Order, violations: Violations) -> Candidate | Status:
    """Return the node as a candidate whose victims are the pods of these units."""
    if not out:
        return error_status(f'expected at least one victim pod on node "{node.name}"')
    return Candidate(node.name, tuple(pods_of(order.by_importance(out))), violations.count(out))
