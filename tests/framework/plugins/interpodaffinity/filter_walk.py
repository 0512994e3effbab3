"""The definition of the plugin's filter: its counts by walking over all nodes and their pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kscheduler.framework.plugins.interpodaffinity.by_node import TopologyPair, means_incoming
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, all_mean, means
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(slots=True)
class FilterWalk:
    """The number of pods, or terms, for or against a pod in each topology pair; pairs of 0 are absent."""

    affinity: dict[TopologyPair, int] = field(default_factory=dict)  # pods that all required affinity terms mean
    anti_affinity: dict[TopologyPair, int] = field(default_factory=dict)  # pods that required anti-affinity means
    existing: dict[TopologyPair, int] = field(default_factory=dict)  # pods whose required anti-affinity means the pod

    @classmethod
    def of(cls, pod: PodInfo, own: OwnTerms, nodes: Iterable[NodeInfo], namespaces: Namespaces) -> FilterWalk:
        counts = cls()
        for node in nodes:
            for other in node.pods.values():
                counts.add(pod, own, other, node, namespaces)
        return counts

    def add(self, pod: PodInfo, own: OwnTerms, other: PodInfo, node: NodeInfo, namespaces: Namespaces) -> None:
        """Count another pod on a node."""
        for term in other.affinity.required_anti_affinity:
            if means_incoming(term, pod, namespaces):
                _add(self.existing, term.topology_key, node.labels, 1)
        if all_mean(own.affinity, other):
            for term in own.affinity:
                _add(self.affinity, term.topology_key, node.labels, 1)
        for term in own.anti_affinity:
            if means(term, other):
                _add(self.anti_affinity, term.topology_key, node.labels, 1)

    def satisfies_affinity(self, pod: PodInfo, own: OwnTerms, labels: Mapping[str, str]) -> bool:
        """Return True if a node with these labels has the topology, and in it the pods, that the affinity requires."""
        if any(term.topology_key not in labels for term in own.affinity):
            return False
        if all((term.topology_key, labels[term.topology_key]) in self.affinity for term in own.affinity):
            return True
        # The first of a series of pods that want to be together finds none of them anywhere, and may go ahead.
        return not self.affinity and all_mean(own.affinity, pod)

    def satisfies_anti_affinity(self, own: OwnTerms, labels: Mapping[str, str]) -> bool:
        keys = {term.topology_key for term in own.anti_affinity}
        return not any((key, labels.get(key)) in self.anti_affinity for key in keys)

    def satisfies_existing(self, labels: Mapping[str, str]) -> bool:
        return not any(pair in self.existing for pair in labels.items())


def _add(counts: dict[TopologyPair, int], key: str, labels: Mapping[str, str], by: int) -> None:
    if key in labels:
        pair = key, labels[key]
        counts[pair] = counts.get(pair, 0) + by
