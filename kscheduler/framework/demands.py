"""A filter's requirements on a node as numbers, so that dry runs can move pods without calling the filter.

A filter's answer may depend on the node alone, on room by resource, or on how many pods a domain counts. A filter
that depends on anything else, or does not state its demands, has to be called again whenever a pod moves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from kscheduler._fast import PodRequest
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


def kind_of(pod: PodInfo) -> Hashable:
    """Return a key of all that a tally may read in a pod: pods with equal keys have equal weights."""
    metadata = pod.pod.metadata
    labels = frozenset((metadata.labels or {}).items())
    return metadata.namespace, labels, pod.host_ports, pod.affinity.required_anti_affinity


def anywhere(node: NodeInfo) -> bool:
    return True


def everybody(pod: PodInfo) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums of pods' weights by topology domain, for the pods now on nodes. Valid for one cycle.

    A pod that comes to a node adds its weight to the node's domain; one that leaves subtracts it.
    """

    ids: array[int]  # row -> domain, -1 for none
    counts: array[int]  # domain -> sum of the weights there
    weigh: Callable[[PodInfo], int]  # pod -> weight, not negative; depends on `kind_of` only
    detail: int  # of a rejection by the count, for the filter's `explain`
    missing: int = 0  # detail of a rejection without a domain; 0: not rejected
    limits: array[int] | None = None  # domain -> highest count allowed; None: it must be above 0
    moves_count: Callable[[NodeInfo], bool] = anywhere  # False: pods that come or leave do not count


@dataclass(frozen=True, slots=True)
class Demands:
    """The requirements of one filter on a node, in the order in which the filter checks them."""

    request: PodRequest | None = None  # must be free, besides room for one pod; detail as in `filter_fit`
    needs: Sequence[Tally] = ()  # tallies without limits
    may_be_first: bool = False  # are needs met, too, if no domain counts any pod?
    limits: Sequence[Tally] = ()
    # Pod on no node yet -> do the tallies cover all that it would count for? If not, dry runs must call the filter.
    know: Callable[[PodInfo], bool] = everybody

    @property
    def are_of_the_node_alone(self) -> bool:
        """True if the answer does not depend on which pods are on nodes: then the filter's table form is sufficient."""
        return self.request is None and not self.needs and not self.limits


NODE_ALONE = Demands()
