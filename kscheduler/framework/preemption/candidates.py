"""Candidates of preemption: nodes where the pod would fit if some pods were evicted; and the choice of the cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.framework.preemption.importance import by_importance, earliest_start, started_s
from kscheduler.framework.status import Status, error_status
from kscheduler.snapshot.pod_info import PodInfo

# Added to each priority of a sum, so that none is negative: fewer pods of a negative priority are then the cheaper.
PRIORITY_SHIFT = 1 << 31

# Violated budgets; priority of the most important victim; sum of priorities; number of victims; minus a start's time.
Cost = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Candidate:
    node_name: str
    victims: tuple[PodInfo, ...]  # the most important first; never empty
    violations: int = 0  # victims whose eviction violates a PodDisruptionBudget


@dataclass(slots=True)
class Findings:
    """The results of preemption's dry runs on nodes."""

    wanted: int  # number of candidates to be found
    statuses: dict[str, Status] = field(default_factory=dict)  # node name -> why evictions do not help there
    _peaceful: list[Candidate] = field(default_factory=list)  # those that violate no PodDisruptionBudget
    _violating: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """Return the candidates, those first that violate no PodDisruptionBudget."""
        return self._peaceful + self._violating

    @property
    def is_enough(self) -> bool:
        """Return True once there are as many candidates as wanted, at least one of them without violated budgets."""
        return bool(self._peaceful) and len(self._peaceful) + len(self._violating) >= self.wanted

    def add(self, node_name: str, found: Candidate | Status) -> None:
        """Add the result of one node's dry run: a candidate, or a status that states why evictions do not help.

        Of the candidates with violated budgets, and of those without, no more are kept than are wanted.
        """
        if isinstance(found, Status):
            self.statuses[node_name] = found
            return
        kind = self._violating if found.violations else self._peaceful
        if len(kind) < self.wanted:
            kind.append(found)


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
