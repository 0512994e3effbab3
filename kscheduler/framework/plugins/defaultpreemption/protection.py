"""Finds the victims whose eviction violates PodDisruptionBudgets, for dry runs by kernels."""

from __future__ import annotations

from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import Kinds, NodePods
from kscheduler.framework.preemption.violations import overdraws
from kscheduler.snapshot.disruption_budgets import Budget, DisruptionBudgets


class Protection:
    """The PodDisruptionBudgets during one preemptor's search for victims.

    They are matched once for all pods that are equal in what filters and budgets read (`Kinds`).
    """

    def __init__(self, budgets: DisruptionBudgets, kinds: Kinds, *, stops_at_overdrawn: bool) -> None:
        self._budgets = budgets
        self._stops_at_overdrawn = stops_at_overdrawn  # as for `violations.split`
        self._kinds = kinds
        self._covering: dict[int, tuple[Budget, ...]] = {}  # kind of pods -> the budgets for such pods

    def violating(self, here: NodePods, first: int) -> bytes:
        """Return a byte for each pod of a node: 1 if its eviction would violate a budget.

        All pods from index `first` on are evicted, and use up the disruptions that budgets still allow one after the
        other.
        """
        marks = bytearray(len(here.pods))
        if not len(self._budgets):
            return bytes(marks)
        budgets = [self._covers(kind) for kind in here.distinct_kinds]
        if not any(budgets):
            return bytes(marks)
        left: dict[Budget, int] = {}
        for position, kind in enumerate(here.kinds[first:], first):
            if self._covering[kind]:
                name = here.pods[position].pod.metadata.name
                covering = [budget for budget in self._covering[kind] if name not in budget.disrupted]
                marks[position] = overdraws(covering, left, self._stops_at_overdrawn)
        return bytes(marks)

    def _covers(self, kind: int) -> tuple[Budget, ...]:
        found = self._covering.get(kind)
        if found is None:
            metadata = self._kinds.examples[kind].pod.metadata
            budgets = self._budgets.within(metadata.namespace) if metadata.labels else ()
            found = tuple(budget for budget in budgets if budget.selector.matches(metadata.labels or {}))
            self._covering[kind] = found
        return found
