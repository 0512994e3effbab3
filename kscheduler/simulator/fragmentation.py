"""Computes fragmentation: the share of free capacity on nodes where typical pods do not fit.

A shape is a set of requests that many pods have in common. For one resource r, at one moment, over the SHAPES most
frequent shapes s that request r, weighted (w_s) by how many pods have them:

    fragmentation(r) = sum_s w_s * (free r on nodes where s does not fit) / (free r on all nodes),  sum_s w_s = 1

0: every such pod fits on each node that has room; 1: none of the free capacity is of use to any of them. "Fits"
considers resources alone, the number of pods included, and neither taints nor selectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from operator import attrgetter

from kscheduler.api.resources import PODS
from kscheduler.simulator.accounting import Demand, Moment, NodeRow, PodRecord

SHAPES = 16
_demand_of: Callable[[PodRecord], Demand] = attrgetter("demand")

Shape = tuple[tuple[str, int], ...]  # (resource, amount), by name


def frequent_shapes(records: Collection[PodRecord], resource: str) -> list[tuple[Shape, int]]:
    """Return the SHAPES most frequent shapes that request the resource, each with the number of pods that have it."""
    counts: Counter[Shape] = Counter()
    for demand, count in Counter(map(_demand_of, records)).items():
        if demand.amounts.get(resource):
            counts[tuple(sorted(demand.amounts.items()))] += count
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHAPES]


def fragmentation(
    resource: str,
    shapes: Sequence[tuple[Shape, int]],
    resources: Sequence[str],
    rows: Sequence[NodeRow],
    moment: Moment,
) -> float | None:
    """Return the fragmentation of one resource (see above); None if nothing of it is free, or no pod requests it."""
    index = {name: position for position, name in enumerate(resources)}
    at = index[resource]
    # Nodes with equal capacities and amounts in use are one case: a cluster has few of them until it is full.
    cases = Counter(
        (tuple(row.capacity), tuple(used)) for row, used in zip(rows, moment.used, strict=False) if not row.gone
    )
    frees: Counter[tuple[int, ...]] = Counter()
    for (capacity, used), count in cases.items():
        frees[_free(capacity, used, len(resources))] += count
    total = sum(free[at] * count for free, count in frees.items() if free[at] > 0)
    weights = sum(count for _, count in shapes)
    if not total or not weights:
        return None
    unusable = 0.0
    for shape, weight in shapes:
        needs = [(index[name], amount) for name, amount in shape if name in index]
        lost = sum(free[at] * count for free, count in frees.items() if free[at] > 0 and not _fits(needs, free))
        unusable += weight * lost
    return unusable / (weights * total)


def _free(capacity: Sequence[int], used: Sequence[int], width: int) -> tuple[int, ...]:
    """Return the free amounts of `width` resources; where a list is shorter, its amount is zero."""
    free = [has - taken for has, taken in zip_longest(capacity, used, fillvalue=0)]
    return tuple(free + [0] * (width - len(free)))


def _fits(needs: Sequence[tuple[int, int]], free: tuple[int, ...]) -> bool:
    for index, amount in needs:  # noqa: SIM110 (asked so often that a generator would be most of its cost)
        if free[index] < amount:
            return False
    return True


def contended(resources: Sequence[str]) -> list[str]:
    """Return the resources whose fragmentation is reported: all except "pods"."""
    return [name for name in resources if name != PODS]
