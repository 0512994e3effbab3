"""The requirements of a filter on a node as numbers, so that preemption's dry runs need not call the filter.

A filter's answer may depend on the node alone, on room by resource, or on how many pods are counted in a topology
domain. A filter that depends on anything else, or does not state its demands, has to be called again whenever a dry run
moves a pod.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from kscheduler._fast import PodRequest
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


def kind_of(pod: PodInfo) -> Hashable:
    """Return a key of everything in a pod that a `Tally` (a count by topology domain) may read.

    Pods with equal keys have equal weights, i.e. change each count equally.
    """
    metadata = pod.pod.metadata
    labels = frozenset((metadata.labels or {}).items())
    return metadata.namespace, labels, pod.host_ports, pod.affinity.required_anti_affinity


def anywhere(node: NodeInfo) -> bool:
    return True


def everybody(pod: PodInfo) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Tally:
    """A count of pods by topology domain, each pod with a weight, for the pods now on nodes. Valid for one cycle.

    A pod that comes to a node adds its weight to the count of the node's domain; a pod that leaves subtracts it.
    """

    ids: array[int]  # row -> domain, -1 for none
    counts: array[int]  # domain -> sum of the weights there
    weigh: Callable[[PodInfo], int]  # pod -> weight, not negative; depends on `kind_of` only
    detail: int  # reason number if the count rejects a node, for the filter's `explain`
    missing: int = 0  # reason number if a node without a domain is rejected; 0: it is not rejected
    limits: array[int] | None = None  # domain -> highest count allowed; None: the count must be above 0
    moves_count: Callable[[NodeInfo], bool] = anywhere  # False: pods that come to this node or leave do not count


@dataclass(frozen=True, slots=True)
class Demands:
    """The requirements of one filter on a node, in the order in which the filter checks them."""

    request: PodRequest | None = None  # the node must have this free, and room for one more pod
    needs: Sequence[Tally] = ()  # tallies whose count must be above 0 in the node's domain
    may_be_first: bool = False  # are the needs met, too, if no domain at all counts a pod?
    limits: Sequence[Tally] = ()  # tallies whose count has a highest value
    # Pod that is on no node yet -> do the tallies cover every effect it would have? If not, dry runs call the filter.
    know: Callable[[PodInfo], bool] = everybody

    @property
    def are_of_the_node_alone(self) -> bool:
        """True if the answer does not depend on the pods on nodes, so that the filter's table form suffices."""
        return self.request is None and not self.needs and not self.limits


NODE_ALONE = Demands()
