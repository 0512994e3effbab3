"""The definition of PodTopologySpread's scores: iterates over all nodes and their pods to score one node.

The kernels must agree with it. A node without a topology key, where that is allowed, counts for the domain "".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kscheduler._fast.rounding import round_half_away
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint, Constraints
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo


class SoftScore:
    """Scores nodes for a pod by its ScheduleAnyway constraints; `feasible` are the nodes to choose from."""

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
        """Return False for a node that lacks a required topology key: it gets the score 0."""
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
        """Normalise scores (node name -> raw) to 0..100 in place: the fewer matching pods, the higher."""
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
    """Return the constraint's weight, which multiplies its pod counts: it grows with the number of topology domains."""
    if constraint.topology_key == HOSTNAME:
        return normalizing_weight(len(scored))
    return normalizing_weight(len({node.labels.get(constraint.topology_key, "") for node in scored}))


def normalizing_weight(domains: int) -> float:
    return math.log(float(domains + 2))
