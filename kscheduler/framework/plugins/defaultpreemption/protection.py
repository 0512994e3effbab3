"""The victims that violate PodDisruptionBudgets. Budgets are respected where possible, not always."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.snapshot.disruption_budgets import Budget, DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo


def split(victims: Sequence[PodInfo], budgets: DisruptionBudgets) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return (those whose end would violate a budget, the others), each in the order given.

    The victims use up the budgets one after the other, so the first ones are covered.
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
    """Charge the victim to every budget that covers it; return True if one of them does not allow it."""
    overdrawn = False
    for budget in budgets.within(victim.pod.metadata.namespace):
        if budget.covers(victim.pod):
            left[budget] = left.get(budget, budget.allowed) - 1
            overdrawn = overdrawn or left[budget] < 0
    return overdrawn
