"""Which changes of pods and nodes may help a pod that this plugin has rejected.

A pod can wait for pods it requires, for pods it shuns or that shun it to go, for nodes, and for labels that move a
node to another domain. kube-scheduler's hints miss some of that: nodes for a pod that only others shun, one of
several terms of anti-affinity, namespace selectors, and the last pod of a series that went; such pods wait there
until they are tried again anyway, after minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kscheduler.api.objects import Node, Pod
from kscheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms, compile_pod_affinity
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, own_terms
from kscheduler.snapshot.namespaces import Namespaces

MAX_KEPT = 10_000  # waiting pods whose compiled terms are remembered: each event asks about all of them


class Hints:
    """`shunning_keys`: the topology keys of required anti-affinity that pods on nodes state."""

    def __init__(self, namespaces: Namespaces, shunning_keys: Callable[[], Collection[str]]) -> None:
        self._namespaces = namespaces
        self._shunning_keys = shunning_keys
        self._compiled: dict[str, tuple[Pod, PodAffinityTerms]] = {}  # pod uid -> the pod it was, its terms

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """`old` is None for a pod that has come to a node, `new` for one that has gone; else its labels changed."""
        before, after = _as_pod(old), _as_pod(new)
        changed = after or before
        if changed is None or changed.metadata.uid == waiting.metadata.uid:
            return True
        if after is not None and not after.spec.node_name:
            return False  # not on a node; one that goes may have been assumed there, without its object saying so
        terms = self._terms(waiting)
        own = own_terms(terms, self._namespaces)
        if terms.fault is not None or _may_join(own, waiting, before, after) or _is_left_alone(own, before, after):
            return True
        return before is not None and after is None and self._shuns(before, waiting)

    def after_node(self, waiting: Pod, old: object, new: object) -> bool:
        """`old` is None for a new node; else its labels or taints changed."""
        if not isinstance(old, Node) or not isinstance(new, Node):
            return True
        terms = self._terms(waiting)
        before, after = old.metadata.labels or {}, new.metadata.labels or {}
        keys = {term.topology_key for term in (*terms.required_affinity, *terms.required_anti_affinity)}
        return any(before.get(key) != after.get(key) for key in keys.union(self._shunning_keys()))

    def _shuns(self, gone: Pod, waiting: Pod) -> bool:
        namespace = self._namespaces.get(waiting.metadata.namespace) or {}
        return any(
            term.matches(waiting.metadata.namespace, waiting.metadata.labels or {}, namespace)
            for term in compile_pod_affinity(gone).required_anti_affinity
        )

    def _terms(self, waiting: Pod) -> PodAffinityTerms:
        if waiting.spec.affinity is None:
            return compile_pod_affinity(waiting)
        known = self._compiled.get(waiting.metadata.uid)
        if known is not None and known[0] is waiting:
            return known[1]
        if len(self._compiled) >= MAX_KEPT:
            self._compiled.clear()
        terms = compile_pod_affinity(waiting)
        self._compiled[waiting.metadata.uid] = waiting, terms
        return terms


def _may_join(own: OwnTerms, waiting: Pod, before: Pod | None, after: Pod | None) -> bool:
    """Is there a pod now that the affinity requires, or is the pod now the first of its series?"""
    is_meant, was_meant = _all_mean(own.affinity, after), _all_mean(own.affinity, before)
    return is_meant > was_meant or (was_meant > is_meant and _all_mean(own.affinity, waiting))


def _is_left_alone(own: OwnTerms, before: Pod | None, after: Pod | None) -> bool:
    """Is there one pod less that the anti-affinity shuns?"""
    return any(_means(term, before) and not _means(term, after) for term in own.anti_affinity)


def _all_mean(terms: tuple[AffinityTerm, ...], pod: Pod | None) -> bool:
    return bool(terms) and all(_means(term, pod) for term in terms)


def _means(term: AffinityTerm, pod: Pod | None) -> bool:
    return pod is not None and term.matches(pod.metadata.namespace, pod.metadata.labels or {}, None)


def _as_pod(subject: object) -> Pod | None:
    return subject if isinstance(subject, Pod) else None
