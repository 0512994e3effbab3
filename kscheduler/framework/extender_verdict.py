"""The extenders' answers about one pod's nodes, used in the second part of the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo

EXTENDER = "Extender"  # stands for all extenders where a plugin's name is wanted: statuses, the queue, metrics

# Of a node that was asked about and is missing in the answer, or was not there to be asked about. As in
# kube-scheduler it has no words for the pod's user, and nobody is evicted there.
LEFT_OUT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)


@dataclass(frozen=True, slots=True)
class ExtenderVerdict:
    """The nodes that extenders passed; only they count, of those that passed all filters."""

    passed: frozenset[str]
    statuses: Mapping[str, Status] = field(default_factory=dict)  # node name -> why not
    shares: Mapping[str, int] = field(default_factory=dict)  # node name -> what to add to its total score

    def status_of(self, node_name: str) -> Status:
        """Return the status of a node that extenders did not pass."""
        return self.statuses.get(node_name, LEFT_OUT)


class NodeVictims(NamedTuple):
    """The victims of a preemption on one node."""

    node_name: str
    pods: tuple[PodInfo, ...]
    violations: int  # of disruption budgets


Proposal = tuple[NodeVictims, ...]  # the nodes among which a preemption may choose
