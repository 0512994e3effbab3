"""The definition of InterPodAffinity's scores: iterates over all nodes and their pods to score one node.

Decisions use `by_table` instead, which keeps counters. Scores go by topology pair: the key of a node label, and its
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kscheduler.api.pod_affinity import AffinityTerm
from kscheduler.framework.interface import MAX_NODE_SCORE
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, means
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

TopologyPair = tuple[str, str]  # (label key, value)


def score_by_pair(
    pod: PodInfo, own: OwnTerms, nodes: Iterable[NodeInfo], namespaces: Namespaces, hard_weight: int
) -> dict[TopologyPair, int]:
    """Return the score of each topology pair (label key, value) for the pod; empty if no affinity term applies.

    `hard_weight`: the weight of an existing pod's required affinity term that matches the pod.
    """
    scores: dict[TopologyPair, int] = {}
    for node in nodes:
        labels = node.labels
        for other in node.pods.values():
            for weight, term in own.preferred:
                if means(term, other):
                    _add(scores, term.topology_key, labels, weight)
            for term in other.affinity.required_affinity if hard_weight > 0 else ():
                if means_incoming(term, pod, namespaces):
                    _add(scores, term.topology_key, labels, hard_weight)
            for weight, term in other.affinity.preferred:
                if means_incoming(term, pod, namespaces):
                    _add(scores, term.topology_key, labels, weight)
    return scores


def score_of(labels: Mapping[str, str], scores: Mapping[TopologyPair, int]) -> int:
    return sum(scores.get(pair, 0) for pair in labels.items())


def normalize_between(scores: dict[str, int]) -> None:
    """Scale scores (node name -> raw) in place: 100 · ((s - min) / (max - min)) in doubles, truncated; all 0 if equal.

    The division comes first, as in kube-scheduler: the other order would round differently.
    """
    lowest, highest = min(scores.values(), default=0), max(scores.values(), default=0)
    for node, score in scores.items():
        share = (score - lowest) / (highest - lowest) if highest > lowest else 0.0
        scores[node] = int(MAX_NODE_SCORE * share)


def means_incoming(term: AffinityTerm, pod: PodInfo, namespaces: Namespaces) -> bool:
    """Return True if an existing pod's affinity term matches the pod to be placed.

    A namespace that the watch never reported counts as one without labels here, unlike for the pod's own terms.
    """
    metadata = pod.pod.metadata
    return term.matches(metadata.namespace, metadata.labels or {}, namespaces.get(metadata.namespace) or {})


def _add(counts: dict[TopologyPair, int], key: str, labels: Mapping[str, str], by: int) -> None:
    if key in labels:
        pair = key, labels[key]
        counts[pair] = counts.get(pair, 0) + by
