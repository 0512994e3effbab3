"""Pods by domain for a pod's hard constraints: as the table's counters have them, and as they would be if pods moved.

A pod that moves counts by kube-scheduler's rule for such pods, which is not quite that for pods at rest: a
terminating one counts as well, and so does any pod if the selector has no requirements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from kscheduler.framework.plugins.podtopologyspread.by_node import has_all_keys
from kscheduler.framework.plugins.podtopologyspread.constraints import Constraint
from kscheduler.framework.plugins.podtopologyspread.inclusion import Inclusion
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.summed_domains import SummedDomains


class HardCounts:
    """One pod's, on the nodes its constraints look at. Counted when first needed: most cycles never ask."""

    __slots__ = ("_changes", "_constraints", "_count", "_counted", "inclusion")

    def __init__(
        self, constraints: tuple[Constraint, ...], inclusion: Inclusion, count: Callable[[], Sequence[SummedDomains]]
    ) -> None:
        """`count` gives what each constraint counts, as pods are now."""
        self._constraints = constraints
        self.inclusion = inclusion
        self._count = count
        self._counted: Sequence[SummedDomains] | None = None
        # for each constraint: domain -> how many pods more there are than were counted
        self._changes: list[dict[str, int]] = [{} for _ in constraints]

    def clone(self) -> HardCounts:
        other = HardCounts(self._constraints, self.inclusion, self._count)
        other._counted = self._summed()
        other._changes = [dict(changes) for changes in self._changes]
        return other

    def is_too_many(self, position: int, domain: str, own: int) -> bool:
        """Would the pod, counting for `own`, make the domain too full for the constraint at `position`?"""
        constraint, summed, changes = self._constraints[position], self._summed()[position], self._changes[position]
        least = _least(summed, changes) if summed.present >= constraint.min_domains else 0
        return summed.of(domain) + changes.get(domain, 0) + own - least > constraint.max_skew

    def move(self, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Another pod comes to the node (1) or leaves it (-1)."""
        if other.pod.metadata.namespace != pod.pod.metadata.namespace:
            return
        if not has_all_keys(node.labels, self._constraints):
            return
        labels = other.pod.metadata.labels or {}
        self._summed()
        for constraint, changes in zip(self._constraints, self._changes, strict=True):
            if constraint.pods.selector.matches(labels) and self.inclusion.includes(constraint, node):
                domain = node.labels[constraint.topology_key]
                changes[domain] = changes.get(domain, 0) + by

    def _summed(self) -> Sequence[SummedDomains]:
        if self._counted is None:
            self._counted = self._count()
        return self._counted


def _least(summed: SummedDomains, changes: dict[str, int]) -> int:
    """The lowest count, after the changes; they are in few domains, mostly in one."""
    if not any(changes.values()):
        return summed.minimum
    before = {domain: summed.of(domain) for domain in changes}
    after = min(before[domain] + by for domain, by in changes.items())
    if after <= summed.minimum:
        return after
    untouched = Counter(summed.levels)
    untouched.subtract(before.values())
    return min([after, *(count for count, domains in untouched.items() if domains > 0)])
