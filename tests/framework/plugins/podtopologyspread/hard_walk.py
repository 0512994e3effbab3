"""Hard constraints of spreading by their definition: walk over all nodes and their pods, and count."""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys, matching_pods
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraints
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.snapshot.node_info import NodeInfo


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
