"""The extenders' answers about one pod's nodes, used in the second part of the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.pod_info import PodInfo

EXTENDER = "Extender"  # stands for all extenders where a plugin's name is needed: statuses, the queue, metrics

# The status of a node that an extender left out of its answer, or that did not exist when extenders were asked. As in
# kube-scheduler it has no reason that the pod's message could show, and no pod is evicted there.
LEFT_OUT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)


@dataclass(frozen=True, slots=True)
class ExtenderVerdict:
    """The extenders' answers about one pod: of the nodes that pass all filters, only those in `passed` are feasible."""

    passed: frozenset[str]
    statuses: Mapping[str, Status] = field(default_factory=dict)  # name of a node that did not pass -> status
    shares: Mapping[str, int] = field(default_factory=dict)  # node name -> what extenders add to its total score

    def status_of(self, node_name: str) -> Status:
        """Return the status of a node that extenders did not pass."""
        return self.statuses.get(node_name, LEFT_OUT)


class NodeVictims(NamedTuple):
    """The pods that a preemption would evict from one node."""

    node_name: str
    pods: tuple[PodInfo, ...]
    violations: int  # number of disruption budget violations


Proposal = tuple[NodeVictims, ...]  # the nodes among which a preemption may choose
