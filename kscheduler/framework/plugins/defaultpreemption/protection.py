"""Finds the victims whose eviction violates PodDisruptionBudgets, which preemption respects if possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscheduler.framework.plugins.defaultpreemption.dry_run_residents import Kinds, NodePods
from kscheduler.snapshot.disruption_budgets import Budget, DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo


def split(
    victims: Sequence[PodInfo], budgets: DisruptionBudgets, *, stops_at_overdrawn: bool
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the victims whose eviction would violate a PodDisruptionBudget, and the others, each in the order given.

    Each victim uses up one disruption that its budgets still allow, so that the first victims violate none. With
    `stops_at_overdrawn`, it uses up none of the budgets behind the first that it violates, in the order of `budgets`.
    """
    if not len(budgets):
        return [], list(victims)
    left: dict[Budget, int] = {}
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for victim in victims:
        covering = (each for each in budgets.within(victim.pod.metadata.namespace) if each.covers(victim.pod))
        (violating if _overdraws(covering, left, stops_at_overdrawn) else others).append(victim)
    return violating, others


def _overdraws(covering: Iterable[Budget], left: dict[Budget, int], stops_at_overdrawn: bool) -> bool:
    """Charge a victim to the budgets that cover it. Returns True if one of them allows no more disruptions.

    `left`: budget -> disruptions that it still allows; below zero when overdrawn.
    """
    overdrawn = False
    for budget in covering:
        left[budget] = left.get(budget, budget.allowed) - 1
        if left[budget] < 0:
            overdrawn = True
            if stops_at_overdrawn:
                break
    return overdrawn


class Protection:
    """The PodDisruptionBudgets during one preemptor's search for victims.

    They are matched once for all pods that are equal in what filters and budgets read (`Kinds`).
    """

    def __init__(self, budgets: DisruptionBudgets, kinds: Kinds, *, stops_at_overdrawn: bool) -> None:
        self._budgets = budgets
        self._stops_at_overdrawn = stops_at_overdrawn  # as for `split`
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
                marks[position] = _overdraws(covering, left, self._stops_at_overdrawn)
        return bytes(marks)

    def _covers(self, kind: int) -> tuple[Budget, ...]:
        found = self._covering.get(kind)
        if found is None:
            metadata = self._kinds.examples[kind].pod.metadata
            budgets = self._budgets.within(metadata.namespace) if metadata.labels else ()
            found = tuple(budget for budget in budgets if budget.selector.matches(metadata.labels or {}))
            self._covering[kind] = found
        return found
