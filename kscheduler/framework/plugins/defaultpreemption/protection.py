"""Finds the victims whose eviction violates PodDisruptionBudgets, which preemption respects if possible."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import Kinds, NodePods
from kscheduler.snapshot.disruption_budgets import Budget, DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo


def split(victims: Sequence[PodInfo], budgets: DisruptionBudgets) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the victims whose eviction would violate a PodDisruptionBudget, and the others, each in the order given.

    Each victim uses up one disruption that its budgets still allow, so that the first victims violate none.
    """
    if not len(budgets):
        return [], list(victims)
    left: dict[Budget, int] = {}  # budget -> disruptions that it still allows; below zero when overdrawn
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for victim in victims:
        (violating if _overdraws(victim, budgets, left) else others).append(victim)
    return violating, others


def _overdraws(victim: PodInfo, budgets: DisruptionBudgets, left: dict[Budget, int]) -> bool:
    """Charge the victim to every budget that covers it. Returns True if one of them allows no more disruptions."""
    overdrawn = False
    for budget in budgets.within(victim.pod.metadata.namespace):
        if budget.covers(victim.pod):
            left[budget] = left.get(budget, budget.allowed) - 1
            overdrawn = overdrawn or left[budget] < 0
    return overdrawn


class Protection:
    """The PodDisruptionBudgets during one preemptor's search for victims.

    They are matched once for all pods that are equal in what filters and budgets read (`Kinds`).
    """

    def __init__(self, budgets: DisruptionBudgets, kinds: Kinds) -> None:
        self._budgets = budgets
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
        left: dict[Budget, int] = {}  # budget -> disruptions that it still allows; below zero when overdrawn
        for position, kind in enumerate(here.kinds[first:], first):
            for budget in self._covering[kind]:
                if not budget.disrupted or here.pods[position].pod.metadata.name not in budget.disrupted:
                    left[budget] = left.get(budget, budget.allowed) - 1
                    if left[budget] < 0:
                        marks[position] = 1
        return bytes(marks)

    def _covers(self, kind: int) -> tuple[Budget, ...]:
        found = self._covering.get(kind)
        if found is None:
            metadata = self._kinds.examples[kind].pod.metadata
            budgets = self._budgets.within(metadata.namespace) if metadata.labels else ()
            found = tuple(budget for budget in budgets if budget.selector.matches(metadata.labels or {}))
            self._covering[kind] = found
        return found
