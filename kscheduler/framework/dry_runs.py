"""Dry runs of preemption: what they find, and pods that must not be evicted one without the other.

The latter are groups such as gangs, which the plugins that preempt know by the `VictimGroups` of their handle only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node where the pod would fit if these pods were evicted."""

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


class DryRun(Protocol):
    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        """Try the nodes in this order, until `Findings.is_enough` or all have been tried."""
        ...


class VictimGroups(Protocol):
    """The groups among the pods on nodes, for the preemption of a single pod."""

    def priority_of(self, pod: PodInfo) -> int:
        """Return the priority that counts for a pod on a node: its own, or that of its group."""
        ...

    def may_outrank(self) -> bool:
        """Return True if a group may have a lower priority than each of its pods."""
        ...

    def is_member(self, pod: PodInfo) -> bool:
        """Return True if the pod is in a group."""
        ...

    def dry_run(self, singly: DryRun) -> DryRun:
        """Return a dry run that evicts the pods of groups together. `singly` evicts any pod without others."""
        ...

    def also_leaving(self, victims: Sequence[PodInfo], preemptor: PodInfo) -> Sequence[tuple[PodInfo, NodeInfo]] | None:
        """Return the pods, with their nodes, that must be evicted together with these victims of a preemptor.

        None if these victims must not be evicted at all.
        """
        ...
