"""Candidates of preemption: making one of a node and its victims, what each costs, and the choice of the cheapest."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.preemption.importance import by_importance, earliest_start, started_s
from kscheduler.framework.status import Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

# Added to each priority of a sum, so that none is negative: fewer pods of a negative priority are then the cheaper.
PRIORITY_SHIFT = 1 << 31

# Violated budgets; priority of the most important victim; sum of priorities; number of victims; minus a start's time.
Cost = tuple[float, float, float, float, float]


def least_cost(exposed: Sequence[PodInfo], now: float) -> Cost:
    """Return a cost that no candidate is below whose victims are among these pods; there must be one."""
    lowest = min(pod.priority for pod in exposed)
    return 0, lowest, lowest + PRIORITY_SHIFT, 1, -max(started_s(pod, now) for pod in exposed)


def candidate_of(
    node_name: str, violating: Sequence[PodInfo], others: Sequence[PodInfo], now: float
) -> Candidate | Status:
    """Return the node with its victims: those whose eviction violates a PodDisruptionBudget, and the others.

    Without any victim it is an ERROR status, since the pod did not fit on the node before.
    """
    if not violating and not others:
        return error_status(f'expected at least one victim pod on node "{node_name}"')
    victims = by_importance((*violating, *others), now) if violating and others else (*violating, *others)
    return Candidate(node_name, tuple(victims), len(violating))


def cheapest(candidates: Sequence[Candidate], now: float) -> Candidate:
    """Return the candidate that kube-scheduler chooses. Each rule decides among candidates equal by the rules before.

    The rules: fewest violated budgets; lowest priority of the most important victim; lowest sum of priorities; fewest
    victims; the node whose most important victims have run for the shortest time; the first in order.
    """
    return min(candidates, key=lambda candidate: cost(candidate, now))


def cost(candidate: Candidate, now: float) -> Cost:
    """Return what `cheapest` compares: the lower, the better."""
    victims = candidate.victims
    return (
        candidate.violations,
        victims[0].priority,
        sum(victim.priority + PRIORITY_SHIFT for victim in victims),
        len(victims),
        -earliest_start(victims, now),
    )
