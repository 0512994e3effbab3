"""Pods that preemption must not evict one without the other, such as the members of a gang."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.preemption.candidates import Findings
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


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
