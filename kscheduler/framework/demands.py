"""A filter's requirements on a node as numbers, so that pods can be imagined elsewhere without asking the filter.

A filter's answer may depend on the node alone, on room by resource, or on how many pods a domain counts. A filter
that depends on anything else, or says nothing of itself, has to be asked again whenever a pod moves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from kscheduler._fast import PodRequest
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


def kind_of(pod: PodInfo) -> Hashable:
    """Return all of a pod that a tally may depend on: pods of one kind weigh the same."""
    metadata = pod.pod.metadata
    labels = frozenset((metadata.labels or {}).items())
    return metadata.namespace, labels, pod.host_ports, pod.affinity.required_anti_affinity


def anywhere(node: NodeInfo) -> bool:
    return True


def everybody(pod: PodInfo) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tally:
    """A sum over pods by domain of a topology, as the table has it. Valid for one cycle.

    A pod that comes to a node adds its weight to the node's domain; one that leaves takes it away.
    """

    ids: array[int]  # row -> domain, -1 for none
    counts: array[int]  # domain -> what is counted there
    weigh: Callable[[PodInfo], int]  # never below zero; goes by the pod's kind
    detail: int  # why not, for the filter's `explain`
    missing: int = 0  # the same where a node has no domain; 0: that is fine
    limits: array[int] | None = None  # domain -> highest count that is fine; None: somebody has to be counted
    moves_count: Callable[[NodeInfo], bool] = anywhere  # do pods that come to this node, or leave it, count at all?


@dataclass(frozen=True, slots=True)
class Demands:
    """The requirements of one filter, in the order in which it checks them."""

    request: PodRequest | None = None  # must be free, beside room for one more pod; detail as `filter_fit` has it
    needs: Sequence[Tally] = ()  # without limits
    may_be_first: bool = False  # are the needs fine, too, while they count nobody in any domain?
    limits: Sequence[Tally] = ()
    # Is there a tally for all that a pod would count for which is on no node yet? Else what-ifs must be asked.
    know: Callable[[PodInfo], bool] = everybody

    @property
    def are_of_the_node_alone(self) -> bool:
        """Return True if pods that move do not matter: then the filter's table form is complete."""
        return self.request is None and not self.needs and not self.limits


NODE_ALONE = Demands()
