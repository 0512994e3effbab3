"""Pods with affinity to each other, at random: few labels and topologies, so that terms meet pods."""

from __future__ import annotations

from hypothesis import strategies as st

from kscheduler.api.objects import LabelSelector, SelectorRequirement
from kscheduler.testing import PodBuilder
from kscheduler.testing.wrappers import Selector

KEYS = ("zone", "kubernetes.io/hostname", "rack", "")
NAMESPACES = ("default", "shop", "back", "unreported")
APPS = ("web", "db")
TEAMS = ("x", "y")

_SELECTORS: tuple[Selector, ...] = (
    {"app": "web"},
    {"app": "db"},
    {"app": "web", "tier": "front"},
    LabelSelector(),
    None,
    LabelSelector(match_expressions=[SelectorRequirement("app", "NotIn", ["web"])]),
    LabelSelector(match_expressions=[SelectorRequirement("tier", "Exists")]),
    LabelSelector(match_expressions=[SelectorRequirement("tier", "DoesNotExist")]),
)
_NAMESPACE_SELECTORS: tuple[Selector, ...] = (
    {"team": "x"},
    LabelSelector(),
    LabelSelector(match_expressions=[SelectorRequirement("team", "NotIn", ["x"])]),
    LabelSelector(match_expressions=[SelectorRequirement("team", "DoesNotExist")]),
)


@st.composite
def with_pod_affinity(draw: st.DrawFn, pod: PodBuilder) -> PodBuilder:
    """The pod with labels and up to three terms of any kind."""
    if draw(st.booleans()):
        pod = pod.label(app=draw(st.sampled_from(APPS)))
    if draw(st.integers(0, 3)) == 0:
        pod = pod.label(tier="front")
    for _ in range(draw(st.integers(0, 3))):
        pod = draw(_with_term(pod))
    return pod


@st.composite
def _with_term(draw: st.DrawFn, pod: PodBuilder) -> PodBuilder:
    key, selector = draw(st.sampled_from(KEYS)), draw(st.sampled_from(_SELECTORS))
    namespaces = draw(st.none() | st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True))
    namespace_selector = draw(st.none() | st.sampled_from(_NAMESPACE_SELECTORS))
    meant = {"namespaces": namespaces, "namespace_selector": namespace_selector}
    kind = draw(st.sampled_from(("affinity", "anti-affinity", "preferred", "preferred anti")))
    if kind == "affinity":
        return pod.pod_affinity(key, selector, **meant)
    if kind == "anti-affinity":
        return pod.pod_anti_affinity(key, selector, **meant)
    weight = draw(st.integers(1, 100))
    if kind == "preferred":
        return pod.preferred_pod_affinity(weight, key, selector, **meant)
    return pod.preferred_pod_anti_affinity(weight, key, selector, **meant)
