"""Spreading by its definition: walk over all nodes and their pods, and count. The kernels must say the same.

Tests hold the filter's counts, which come from counters, against this; scores of single nodes are worked out by it.
A node without a topology key, where that is allowed, counts for the domain "".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kscheduler._fast.rounding import round_half_away
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint, Constraints
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.profiles import HOSTNAME


class HardWalk:
    """Pods by domain for each hard constraint, on the nodes it looks at."""

    def __init__(self, constraints: Constraints, inclusion: Inclusion, nodes: Iterable[NodeInfo]) -> None:
        self._constraints = constraints.hard
        self._counts: list[dict[str, int]] = [{} for _ in constraints.hard]
        for node in nodes:
            if not has_all_keys(node.labels, constraints.hard):
                continue
            for constraint, counts in zip(constraints.hard, self._counts, strict=True):
                if inclusion.includes(constraint, node):
                    domain = node.labels[constraint.topology_key]
                    counts[domain] = counts.get(domain, 0) + matching_pods(constraint, node)

    def is_too_many(self, position: int, domain: str, own: int) -> bool:
        """Would the pod, counting for `own`, make the domain too full for the constraint at `position`?"""
        constraint, counts = self._constraints[position], self._counts[position]
        least = min(counts.values()) if len(counts) >= constraint.min_domains else 0
        return counts.get(domain, 0) + own - least > constraint.max_skew


class SoftScore:
    """The raw score of nodes for a pod; `feasible` are those among which it is to choose."""

    def __init__(
        self, constraints: Constraints, inclusion: Inclusion, nodes: Iterable[NodeInfo], feasible: Iterable[NodeInfo]
    ) -> None:
        self._constraints = constraints.soft
        keys = constraints.soft if constraints.needs_all_keys else ()
        scored = [node for node in feasible if has_all_keys(node.labels, keys)]
        self._scored = {node.name for node in scored}
        self._weights = [_weight(constraint, scored) for constraint in constraints.soft]
        self._counts: list[dict[str, int]] = [{} for _ in constraints.soft]
        for node in nodes:
            if not has_all_keys(node.labels, keys):
                continue
            for constraint, counts in zip(constraints.soft, self._counts, strict=True):
                if inclusion.includes(constraint, node):
                    domain = node.labels.get(constraint.topology_key, "")
                    counts[domain] = counts.get(domain, 0) + matching_pods(constraint, node)

    def is_scored(self, node_name: str) -> bool:
        """Nodes that lack a key take no part, and get 0."""
        return node_name in self._scored

    def raw(self, node: NodeInfo) -> int:
        if not self.is_scored(node.name):
            return 0
        total = 0.0
        for constraint, weight, counts in zip(self._constraints, self._weights, self._counts, strict=True):
            domain = node.labels.get(constraint.topology_key)
            if domain is None:
                continue
            by_host = constraint.topology_key == HOSTNAME
            pods = matching_pods(constraint, node) if by_host else counts.get(domain, 0)
            total += float(pods) * weight + float(constraint.max_skew - 1)
        return round_half_away(total)

    def normalize(self, scores: dict[str, int]) -> None:
        """Node name -> raw score, in place: fewest pods 100 or near it."""
        raws = [score for name, score in scores.items() if self.is_scored(name)]
        highest, lowest = max(raws, default=0), min(raws, default=0)
        for name, score in scores.items():
            if not self.is_scored(name):
                scores[name] = 0
            else:
                scores[name] = 100 * (highest + lowest - score) // highest if highest else 100


def has_all_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def matching_pods(constraint: Constraint, node: NodeInfo) -> int:
    counts = constraint.pods.counts
    return sum(
        info.pod.metadata.deletion_timestamp is None
        and counts(info.pod.metadata.namespace, info.pod.metadata.labels or {})
        for info in node.pods.values()
    )


def _weight(constraint: Constraint, scored: list[NodeInfo]) -> float:
    """The more domains there are, the more a pod in one of them weighs."""
    if constraint.topology_key == HOSTNAME:
        return normalizing_weight(len(scored))
    return normalizing_weight(len({node.labels.get(constraint.topology_key, "") for node in scored}))


def normalizing_weight(domains: int) -> float:
    return math.log(float(domains + 2))
