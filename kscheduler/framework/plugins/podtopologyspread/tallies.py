"""PodTopologySpread's DoNotSchedule constraints as limits on the count in each domain, for preemption's dry runs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kscheduler.framework.demands import Tally
from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.summed_domains import SummedDomains

_NO_LIMIT = (1 << 63) - 1


def tally(
    pod: PodInfo,
    constraints: Sequence[Constraint],
    position: int,
    summed: SummedDomains,
    inclusion: Inclusion,
    details: tuple[int, int],
) -> Tally:
    """Return the limits of the constraint at `position`.

    `details`: the reason numbers for a node without the topology key, and for too many pods.
    """
    constraint = constraints[position]
    namespace, matches = pod.pod.metadata.namespace, constraint.pods.selector.matches
    missing, skewed = details

    def weigh(other: PodInfo) -> int:
        """Return 1 if a pod that is moved on trial counts for the constraint; see `HardCounts`."""
        metadata = other.pod.metadata
        return int(metadata.namespace == namespace and matches(metadata.labels or {}))

    def moves_count(node: NodeInfo) -> bool:
        return has_all_keys(node.labels, constraints) and inclusion.includes(constraint, node)

    own = int(matches(pod.pod.metadata.labels or {}))
    limits = _limits(constraint, summed, own)
    return Tally(summed.ids, summed.counts, weigh, skewed, missing, limits, moves_count)


def _limits(constraint: Constraint, summed: SummedDomains, own: int) -> array[int]:
    """Return topology domain -> how many pods it may have before the pod comes.

    Only the lowest count of the other domains matters, which does not change while pods move within one domain: a
    domain cannot have too many pods compared with itself, since maxSkew is at least 1.
    """
    allowance = constraint.max_skew - own
    counts, presence = summed.counts, summed.presence
    if summed.present < constraint.min_domains:
        return array("q", [allowance]) * len(counts)
    lowest = sorted(count for count, is_present in zip(counts, presence, strict=True) if is_present)[:2]
    of_others = [allowance + least for least in lowest] + [_NO_LIMIT] * (2 - len(lowest))
    # The domain with the lowest count is held against the second lowest, all others against the lowest.
    return array(
        "q",
        (
            of_others[1] if is_present and count == lowest[0] else of_others[0]
            for count, is_present in zip(counts, presence, strict=True)
        ),
    )
