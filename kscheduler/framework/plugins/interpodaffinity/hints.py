"""Queueing hints: the changes of pods and nodes that may help a pod that InterPodAffinity has rejected.

A pod can wait for pods that its affinity requires, for pods to leave that exclude it or that it excludes, for nodes,
and for labels that move a node to another topology domain. kube-scheduler's hints miss some of these changes: nodes for
a pod that only others exclude, namespace selectors, and that the last pod left which matched the affinity of a series
of pods. There such pods wait for minutes, until they are tried again anyway. As in kube-scheduler, a pod that leaves
helps if it was excluded by any of several terms of anti-affinity; in 1.36 it must have been by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import NamedTuple

from kscheduler.api.labels import Token
from kscheduler.api.objects import Node, Pod
from kscheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms, compile_pod_affinity, namespace_token
from kscheduler.config.releases import Release
from kscheduler.framework.events import Grouping
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.framework.plugins.interpodaffinity.own_terms import OwnTerms, own_terms
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.pod_info import PodInfo

MAX_KEPT = 10_000  # waiting pods whose compiled terms are remembered: each event asks about all of them


class Kind(NamedTuple):
    """The properties of a waiting pod on which the hints about pods depend; pods with equal ones get equal answers."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]


class Hints:
    """Queueing hints of InterPodAffinity.

    `shunning_keys`: the topology keys of required anti-affinity that pods on nodes state.
    """

    def __init__(self, namespaces: Namespaces, shunning_keys: Callable[[], Collection[str]], release: Release) -> None:
        self._namespaces = namespaces
        self._shunning_keys = shunning_keys
        self._matches_selectors_without_labels = release.matches_selectors_without_labels
        self._of_terms = all if release.wakes_by_all_excluding_terms else any
        self._compiled: dict[str, tuple[Pod, PodAffinityTerms]] = {}  # pod uid -> the pod it was, its terms

        self.for_pods = Grouping(_kind, lambda: Narrowing(_narrowings, _brought))
        self.for_nodes = Grouping(_topology_keys)

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if it may help that a pod came to a node (`old` None), left it (`new` None) or was changed."""
        before, after = _as_pod(old), _as_pod(new)
        changed = after or before
        if changed is None or changed.metadata.uid == waiting.metadata.uid:
            return True
        if after is not None and not (after.spec.node_name or after.status.nominated_node_name):
            # Not on a node, nor about to be. One that goes may have been assumed there, without its object saying so.
            return False
        terms = self._terms(waiting)
        quirk = self._matches_selectors_without_labels
        own = own_terms(terms, self._namespaces, matches_selectors_without_labels=quirk)
        if terms.fault is not None or _may_join(own, waiting, before, after):
            return True
        if self._excludes(own, before) and not self._excludes(own, after):
            return True
        return before is not None and after is None and self._shuns(before, waiting)

    def after_node(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if a new node (`old` None), or one whose labels or taints changed, may help."""
        if not isinstance(new, Node):
            return True
        terms = self._terms(waiting)
        near = {term.topology_key for term in terms.required_affinity}
        apart = {term.topology_key for term in terms.required_anti_affinity}
        after = new.metadata.labels or {}
        if not isinstance(old, Node):
            return bool(apart) or not near or not near.isdisjoint(after)
        before = old.metadata.labels or {}
        if any(before.get(key) != after.get(key) for key in near):
            return True
        # Only a node that leaves a domain helps: one without a domain has nobody to be kept apart from.
        return any(key in before and before[key] != after.get(key) for key in apart.union(self._shunning_keys()))

    def _excludes(self, own: OwnTerms, pod: Pod | None) -> bool:
        """Return True if the waiting pod's anti-affinity excludes the pod, as far as hints go."""
        return bool(own.anti_affinity) and self._of_terms(_means(term, pod) for term in own.anti_affinity)

    def _shuns(self, gone: Pod, waiting: Pod) -> bool:
        """Return True if the anti-affinity of a pod that has gone excluded the waiting pod, as far as hints go."""
        namespace = self._namespaces.get(waiting.metadata.namespace) or {}
        terms = compile_pod_affinity(gone).required_anti_affinity
        return bool(terms) and self._of_terms(
            term.matches(waiting.metadata.namespace, waiting.metadata.labels or {}, namespace) for term in terms
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
    """Return True if a pod that the affinity requires has come, or left so that the waiting pod may be the first."""
    is_meant, was_meant = _all_mean(own.affinity, after), _all_mean(own.affinity, before)
    return is_meant > was_meant or (was_meant > is_meant and _all_mean(own.affinity, waiting))


def _all_mean(terms: tuple[AffinityTerm, ...], pod: Pod | None) -> bool:
    return bool(terms) and all(_means(term, pod) for term in terms)


def _means(term: AffinityTerm, pod: Pod | None) -> bool:
    return pod is not None and term.matches(pod.metadata.namespace, pod.metadata.labels or {}, None)


# --- waiting pods, found by what a pod that changes brings ---


def _kind(pod: PodInfo) -> Kind | None:
    terms, metadata = pod.affinity, pod.pod.metadata
    if terms.fault is not None:
        return None
    labels = frozenset((metadata.labels or {}).items())
    return Kind(metadata.namespace, labels, terms.required_affinity, terms.required_anti_affinity)


def _topology_keys(pod: PodInfo) -> Hashable:
    terms = pod.affinity
    return (
        frozenset(term.topology_key for term in terms.required_affinity),
        frozenset(term.topology_key for term in terms.required_anti_affinity),
    )


def _narrowings(kind: Hashable) -> Sequence[Options]:
    if not isinstance(kind, Kind):
        raise TypeError(f"expected the kind of a pod, got {kind!r}")
    ways: list[Options] = []
    if kind.affinity:  # a pod must be meant by all terms
        ways.append([tokens for term in kind.affinity for tokens in term.narrowings()])
    ways += [term.narrowings() for term in kind.anti_affinity]
    ways.append([[_shunned(token) for token in (*kind.labels, namespace_token(kind.namespace))]])
    return ways


def _brought(old: object, new: object) -> Iterable[Hashable] | None:
    changed = [pod for pod in (old, new) if isinstance(pod, Pod)]
    if not changed:
        return None
    brought: set[Hashable] = {label for pod in changed for label in (pod.metadata.labels or {}).items()}
    brought.update(namespace_token(pod.metadata.namespace) for pod in changed)
    if not isinstance(new, Pod):  # it shuns no pod any more
        for term in compile_pod_affinity(changed[0]).required_anti_affinity:
            narrowings = term.narrowings()
            if not narrowings:
                return None
            brought.update(map(_shunned, min(narrowings, key=lambda tokens: len(list(tokens)))))
    return brought


def _shunned(token: Token) -> Hashable:
    """Return the hint index's token for pods that other pods' anti-affinity excludes by this label or namespace."""
    return "shunned", *token


def _as_pod(subject: object) -> Pod | None:
    return subject if isinstance(subject, Pod) else None
