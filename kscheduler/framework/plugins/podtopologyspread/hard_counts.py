"""Matching pods by topology domain, for a pod's DoNotSchedule constraints; also as they would be if pods moved.

A pod that preemption's trials move counts by a rule of its own, as in kube-scheduler: a terminating pod counts as well,
and if the selector has no requirements, every pod does.
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
    """The pod counts for one pod's DoNotSchedule constraints, made when first needed: most cycles do not need them."""

    __slots__ = ("_constraints", "_count", "_counted", "inclusion")

    def __init__(
        self, constraints: tuple[Constraint, ...], inclusion: Inclusion, count: Callable[[], Sequence[SummedDomains]]
    ) -> None:
        """Build the counts without counting yet.

        `count` returns each constraint's current counts by topology domain.
        """
        self._constraints = constraints
        self.inclusion = inclusion
        self._count = count
        # For each constraint what was counted, and: domain -> how many pods more there are by now.
        self._counted: list[tuple[SummedDomains, dict[str, int]]] | None = None

    def clone(self) -> HardCounts:
        """Return a copy that shares the counts, but not the changes by pods that move."""
        other = HardCounts(self._constraints, self.inclusion, self._count)
        other._counted = [(summed, dict(changes)) for summed, changes in self._summed()]
        return other

    @property
    def at_rest(self) -> list[SummedDomains]:
        """Return each constraint's current counts by topology domain, without the changes by pods that move."""
        return [summed for summed, _ in self._summed()]

    def is_too_many(self, position: int, domain: str, own: int) -> bool:
        """Return True if the pod would violate the constraint at `position` in the topology domain.

        `own`: 1 if the constraint counts the pod itself, else 0.
        """
        constraint = self._constraints[position]
        summed, changes = self._summed()[position]
        least = _least(summed, changes) if summed.present >= constraint.min_domains else 0
        return summed.of(domain) + changes.get(domain, 0) + own - least > constraint.max_skew

    def move(self, pod: PodInfo, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Update the counts as if another pod came to the node (`by` 1) or left it (-1)."""
        if other.pod.metadata.namespace != pod.pod.metadata.namespace:
            return
        if not has_all_keys(node.labels, self._constraints):
            return
        labels = other.pod.metadata.labels or {}
        for constraint, (_, changes) in zip(self._constraints, self._summed(), strict=True):
            if constraint.pods.selector.matches(labels) and self.inclusion.includes(constraint, node):
                domain = node.labels[constraint.topology_key]
                changes[domain] = changes.get(domain, 0) + by

    def _summed(self) -> list[tuple[SummedDomains, dict[str, int]]]:
        if self._counted is None:
            self._counted = [(summed, {}) for summed in self._count()]
        return self._counted


def _least(summed: SummedDomains, changes: dict[str, int]) -> int:
    """Return the lowest count of all topology domains after the changes, which concern few domains, mostly one."""
    if not any(changes.values()):
        return summed.minimum
    before = {domain: summed.of(domain) for domain in changes}
    after = min(before[domain] + by for domain, by in changes.items())
    if after <= summed.minimum:
        return after
    untouched = Counter(summed.levels)
    untouched.subtract(before.values())
    return min([after, *(count for count, domains in untouched.items() if domains > 0)])
