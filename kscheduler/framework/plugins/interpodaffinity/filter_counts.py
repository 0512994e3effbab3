"""Counts by topology pair (label key, value) for InterPodAffinity's Filter, also as they would be if pods moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kscheduler.api.pod_affinity import AffinityTerm
from kscheduler.framework.demands import Demands
from kscheduler.framework.plugins.interpodaffinity.by_node import TopologyPair, means_incoming
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, all_mean, means
from kscheduler.framework.plugins.interpodaffinity.tallies import Summed, demands
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class PairCounts:
    """One of the counts of InterPodAffinity's Filter, by topology pair (label key, value).

    Clones share the sums, but not the changes by pods that move on trial.
    """

    __slots__ = ("_changes", "_summed")

    def __init__(self, summed: Summed) -> None:
        self._summed = summed
        self._changes: dict[TopologyPair, int] = {}  # pair -> how many more there are than were summed

    @property
    def summed(self) -> Summed:
        return self._summed

    def clone(self) -> PairCounts:
        other = PairCounts(self._summed)
        other._changes = dict(self._changes)
        return other

    def of(self, pair: TopologyPair) -> int:
        return self._of(pair) + self._changes.get(pair, 0)

    def _of(self, pair: TopologyPair) -> int:
        key, domain = pair
        return sum(summed.of(domain) for other, summed in self._summed if other == key)

    def add(self, key: str, labels: Mapping[str, str], by: int) -> None:
        if key in labels:
            pair = key, labels[key]
            self._changes[pair] = self._changes.get(pair, 0) + by

    def any_on(self, labels: Mapping[str, str]) -> bool:
        """Return True if something is counted in a topology domain of a node with these labels."""
        keys = {key for key, _ in self._summed} | {key for key, _ in self._changes}
        return any(self.of((key, labels[key])) > 0 for key in keys if key in labels)

    def any_anywhere(self) -> bool:
        pairs = sum(
            domains for summed in dict(self._summed).values() for count, domains in summed.levels.items() if count
        )
        for pair in self._changes:
            pairs += bool(self.of(pair)) - bool(self._of(pair))
        return pairs > 0


class FilterCounts:
    """The filter's counts for one pod, summed when first needed, since most cycles never need them."""

    __slots__ = ("_counts", "_namespaces", "_own", "_pod", "_sum")

    def __init__(
        self, pod: PodInfo, own: OwnTerms, namespaces: Namespaces, sum_up: Callable[[], tuple[Summed, Summed, Summed]]
    ) -> None:
        """Build the counts without summing them. `sum_up` returns three sums by topology domain.

        They are: the pods that the required affinity matches; the pods that the required anti-affinity matches, both by
        term; and the required anti-affinity terms of existing pods that match the pod.
        """
        self._pod = pod
        self._own = own
        self._namespaces = namespaces
        self._sum = sum_up
        self._counts: tuple[PairCounts, PairCounts, PairCounts] | None = None

    def clone(self) -> FilterCounts:
        other = FilterCounts(self._pod, self._own, self._namespaces, self._sum)
        affinity, anti_affinity, existing = self._summed()
        other._counts = affinity.clone(), anti_affinity.clone(), existing.clone()
        return other

    def demands(self, details: tuple[int, int, int]) -> Demands:
        """Return the filter's requirements as numbers, for dry runs.

        `details`: the reason numbers for the pod's affinity, its anti-affinity, and other pods' anti-affinity.
        """
        affinity, anti_affinity, existing = (counts.summed for counts in self._summed())
        return demands(self._pod, self._own, self._namespaces, (affinity, anti_affinity, existing), details)

    def move(self, other: PodInfo, node: NodeInfo, by: int) -> None:
        """Update the counts as if another pod came to the node (`by` 1) or left it (-1)."""
        affinity, anti_affinity, existing = self._summed()
        for key in self._keys_held_against_it(other):
            existing.add(key, node.labels, by)
        if all_mean(self._own.affinity, other):
            for term in self._own.affinity:
                affinity.add(term.topology_key, node.labels, by)
        for term in self._own.anti_affinity:
            if means(term, other):
                anti_affinity.add(term.topology_key, node.labels, by)

    def _keys_held_against_it(self, other: PodInfo) -> Iterator[str]:
        for term in other.affinity.required_anti_affinity:
            if means_incoming(term, self._pod, self._namespaces):
                yield term.topology_key

    def satisfies_affinity(self, labels: Mapping[str, str]) -> bool:
        """Return True if a node with these labels has the topology keys and the pods that the affinity requires."""
        terms: tuple[AffinityTerm, ...] = self._own.affinity
        if not all(term.topology_key in labels for term in terms):
            return False
        affinity = self._summed()[0]
        if all(affinity.of((term.topology_key, labels[term.topology_key])) > 0 for term in terms):
            return True
        # The first of a series of pods that want to be together finds none of them anywhere, and may go ahead.
        return all_mean(terms, self._pod) and not affinity.any_anywhere()

    def satisfies_anti_affinity(self, labels: Mapping[str, str]) -> bool:
        return not self._summed()[1].any_on(labels)

    def satisfies_existing(self, labels: Mapping[str, str]) -> bool:
        return not self._summed()[2].any_on(labels)

    def _summed(self) -> tuple[PairCounts, PairCounts, PairCounts]:
        if self._counts is None:
            affinity, anti_affinity, existing = self._sum()
            self._counts = PairCounts(affinity), PairCounts(anti_affinity), PairCounts(existing)
        return self._counts
