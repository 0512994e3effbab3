"""The affinity terms of the pod to be placed, with the names of namespaces in place of namespace selectors.

The selectors are evaluated once a decision, so that afterwards only names are compared. A namespace that the watch has
not reported matches no selector except one that matches all. In 1.36 a selector that no labels at all satisfy (NotIn,
DoesNotExist) means all namespaces here: kube-scheduler keeps it beside the names it found, and matches it with empty
labels. Later releases drop it, once the names are found.
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms
from kscheduler.snapshot.namespaces import Namespaces
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class OwnTerms:
    affinity: tuple[AffinityTerm, ...]  # required
    anti_affinity: tuple[AffinityTerm, ...]  # required
    preferred: tuple[tuple[int, AffinityTerm], ...]  # (weight, term); anti-affinity weighs negative


NO_OWN_TERMS = OwnTerms((), (), ())


def own_terms(terms: PodAffinityTerms, namespaces: Namespaces, *, matches_selectors_without_labels: bool) -> OwnTerms:
    """Return a pod's terms with names of namespaces in place of selectors.

    `matches_selectors_without_labels`: a selector that empty labels match means all namespaces, as in kube-scheduler
    1.36.
    """
    if not (terms.required_affinity or terms.required_anti_affinity or terms.preferred):
        return NO_OWN_TERMS  # as of most pods
    quirk = matches_selectors_without_labels
    return OwnTerms(
        tuple(_named(term, namespaces, quirk) for term in terms.required_affinity),
        tuple(_named(term, namespaces, quirk) for term in terms.required_anti_affinity),
        tuple((weight, _named(term, namespaces, quirk)) for weight, term in terms.preferred),
    )


def _named(term: AffinityTerm, namespaces: Namespaces, matches_without_labels: bool) -> AffinityTerm:
    if not term.selects_namespaces:
        return term
    if matches_without_labels and term.namespace_selector.matches({}):
        return term.of_all_namespaces()
    return term.with_namespaces(namespaces.selected_by(term.namespace_selector))


def means(term: AffinityTerm, pod: PodInfo) -> bool:
    """Return True if this term of the pod to be placed matches the other pod."""
    metadata = pod.pod.metadata
    return term.matches(metadata.namespace, metadata.labels or {}, None)


def all_mean(terms: tuple[AffinityTerm, ...], pod: PodInfo) -> bool:
    """Return True if there are terms and all of them match the other pod, as required affinity demands."""
    return bool(terms) and all(means(term, pod) for term in terms)
