"""Finds the victims whose eviction violates PodDisruptionBudgets, which preemption respects if possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
        (violating if overdraws(covering, left, stops_at_overdrawn) else others).append(victim)
    return violating, others


def overdraws(covering: Iterable[Budget], left: dict[Budget, int], stops_at_overdrawn: bool) -> bool:
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
