"""Nodes where the pod would fit if some pods left, and which of them costs least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.framework.plugins.defaultpreemption.importance import earliest_start
from kscheduler.framework.status import Status
from kscheduler.snapshot.pod_info import PodInfo

# Added to each priority of a sum, so that none is negative: fewer pods of a negative priority are then the cheaper.
PRIORITY_SHIFT = 1 << 31


@dataclass(frozen=True, slots=True)
class Candidate:
    node_name: str
    victims: tuple[PodInfo, ...]  # the most important first; never empty
    violations: int = 0  # victims whose end violates a disruption budget


@dataclass(slots=True)
class Findings:
    """What dry runs have found out."""

    wanted: int  # candidates to be found
    statuses: dict[str, Status] = field(default_factory=dict)  # node name -> why making room does not help there
    _peaceful: list[Candidate] = field(default_factory=list)  # without violations
    _violating: list[Candidate] = field(default_factory=list)

    @property
    def candidates(self) -> list[Candidate]:
        """Those without violations first."""
        return self._peaceful + self._violating

    @property
    def is_enough(self) -> bool:
        """Are there as many as wanted, and at least one without violations?"""
        return bool(self._peaceful) and len(self._peaceful) + len(self._violating) >= self.wanted

    def add(self, node_name: str, found: Candidate | Status) -> None:
        """What a dry run said about a node. More candidates of a kind than wanted are of no use."""
        if isinstance(found, Status):
            self.statuses[node_name] = found
            return
        kind = self._violating if found.violations else self._peaceful
        if len(kind) < self.wanted:
            kind.append(found)


def cheapest(candidates: Sequence[Candidate], now: float) -> Candidate:
    """kube-scheduler's choice: each rule decides among those that the ones before it leave equal; then the first.

    Fewest violated budgets; lowest priority of the most important victim; lowest sum of priorities; fewest victims;
    the node whose most important victims have run for the shortest time.
    """
    return min(candidates, key=lambda candidate: _cost(candidate, now))


def _cost(candidate: Candidate, now: float) -> tuple[float, ...]:
    victims = candidate.victims
    return (
        candidate.violations,
        victims[0].priority,
        sum(victim.priority + PRIORITY_SHIFT for victim in victims),
        len(victims),
        -earliest_start(victims, now),
    )
