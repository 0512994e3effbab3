"""Finds the pods that landed elsewhere in one of two runs, and counts how all pods in common landed.

Memory is bounded: of all pods only their nodes are kept, and of those that landed elsewhere the first `limit` in the
order of decisions are returned.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kscheduler.compare.pod_outcomes import PodOutcomes
from kscheduler.compare.sides import Side
from kscheduler.counted import counted
from kscheduler.errors import ConfigError

NOT_KNOWN = "?"  # no name of a node


class PodCounts(msgspec.Struct, frozen=True):
    """How many pods landed where. `moved` ones are on another node in B."""

    common: int = 0
    only_in_a: int = 0  # pods that only A has
    only_in_b: int = 0
    same_node: int = 0
    moved: int = 0
    only_placed_in_a: int = 0
    only_placed_in_b: int = 0
    placed_in_neither: int = 0
    are_nodes_known: bool = True  # False: pods placed in both are not compared and not counted

    @property
    def different(self) -> int:
        return self.moved + self.only_placed_in_a + self.only_placed_in_b


@dataclass(frozen=True, slots=True)
class Landing:
    """A pod that landed elsewhere, with its rows in both runs; None if a run does not list it."""

    key: str
    row_a: int | None
    row_b: int | None
    node_a: str
    node_b: str
    at_s: float  # of its first binding in either run; infinite if not known
    priority: int

    @property
    def order(self) -> tuple[float, int, int]:
        """Sorts pods by the time of their binding, then as the queue does."""
        return self.at_s, -self.priority, self.row_b or 0 if self.row_a is None else self.row_a

    @property
    def name(self) -> str:
        """The namespace/name of the pod, without the number of a further pod of this name."""
        return self.key.partition("#")[0]


def find_landings(
    a: Side, b: Side, of_a: PodOutcomes | None, of_b: PodOutcomes | None, limit: int, notes: list[str]
) -> tuple[PodCounts, list[Landing]]:
    """Return how the pods in common landed, and of those that landed elsewhere the first `limit` by `Landing.order`.

    Appends to `notes` what is not compared. Raises ConfigError if the sides have no pod in common.
    """
    if of_a is None or of_b is None:
        return PodCounts(), []
    if not of_a.has_nodes or not of_b.has_nodes:
        names = ", ".join(side.name for side, of in ((a, of_a), (b, of_b)) if not of.has_nodes)
        notes.append(f"Only pods without a node are compared: where the others were placed is not in {names}.")
        return _unplaced(of_a, of_b, limit)
    common = sum(key in of_b.rows for key in of_a.rows)
    if not common and (len(of_a) or len(of_b)):
        raise ConfigError(
            f"expected the same pods on both sides: {a.name} has {len(of_a):,} pods, {b.name} {len(of_b):,}, and none "
            "of them in common"
        )
    counts: Counter[str] = Counter()
    differing = _differing(of_a, of_b, counts)  # counts while it is iterated over
    first = heapq.nsmallest(max(limit, 1), differing, key=lambda landing: landing.order)[:limit]
    found = PodCounts(
        common=common,
        only_in_a=len(of_a) - common,
        only_in_b=len(of_b) - common,
        same_node=counts["same node"],
        moved=counts["moved"],
        only_placed_in_a=counts["only in A"],
        only_placed_in_b=counts["only in B"],
        placed_in_neither=counts["in neither"],
    )
    if found.only_in_a or found.only_in_b:
        notes.append(
            f"Only the {counted(common, 'pod in common is', 'pods in common are')} compared: "
            f"{found.only_in_a:,} only in {a.name}, {found.only_in_b:,} only in {b.name}."
        )
    return found, first


def _differing(of_a: PodOutcomes, of_b: PodOutcomes, counts: Counter[str]) -> Iterator[Landing]:
    """Yield the pods in common that landed elsewhere, and count all pods in common by how they landed."""
    for key, row_a in of_a.rows.items():
        row_b = of_b.rows.get(key)
        if row_b is None:
            continue
        node_a, node_b = of_a.node(row_a), of_b.node(row_b)
        if node_a == node_b:
            counts["same node" if node_a else "in neither"] += 1
            continue
        counts["moved" if node_a and node_b else "only in A" if node_a else "only in B"] += 1
        times = [time for time in (of_a.bound_s(row_a), of_b.bound_s(row_b)) if not math.isnan(time)]
        yield Landing(key, row_a, row_b, node_a, node_b, min(times, default=math.inf), of_a.priority(row_a))


def _unplaced(of_a: PodOutcomes, of_b: PodOutcomes, limit: int) -> tuple[PodCounts, list[Landing]]:
    """Compare which pods have no node; all others count as placed."""
    without_a, without_b = _without_node(of_a), _without_node(of_b)
    first = heapq.nsmallest(
        limit,
        (_half_known(key, of_a, of_b) for key in without_a.symmetric_difference(without_b)),
        key=lambda landing: landing.order,
    )
    counts = PodCounts(
        only_placed_in_a=len(without_b - without_a),
        only_placed_in_b=len(without_a - without_b),
        placed_in_neither=len(without_a & without_b),
        are_nodes_known=False,
    )
    return counts, first


def _without_node(pods: PodOutcomes) -> set[str]:
    return {key for key, row in pods.rows.items() if not pods.is_placed(row)}


def _half_known(key: str, of_a: PodOutcomes, of_b: PodOutcomes) -> Landing:
    rows = row_a, row_b = of_a.rows.get(key), of_b.rows.get(key)
    node_a, node_b = (
        NOT_KNOWN if row is None else pods.node(row) for pods, row in zip((of_a, of_b), rows, strict=True)
    )
    times = [pods.bound_s(row) for pods, row in zip((of_a, of_b), rows, strict=True) if row is not None]
    at_s = min((time for time in times if not math.isnan(time)), default=math.inf)
    return Landing(key, row_a, row_b, node_a, node_b, at_s, 0)
