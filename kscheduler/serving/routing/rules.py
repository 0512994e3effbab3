"""Chooses a new pod's scheduler by the rules of a RoutingConfiguration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kscheduler.api.defaults import NAMESPACE_NAME
from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.objects import LabelSelector as ObjectSelector
from kscheduler.api.objects import SelectorRequirement
from kscheduler.config.routing import RoutingRule
from kscheduler.config.types import LabelSelector

Labels = Mapping[str, str]


class NewPod(NamedTuple):
    """The fields of a new pod that rules match. A pod that has a node already, such as a static pod, is not routed."""

    namespace: str
    labels: Labels
    annotations: Labels
    scheduler_name: str
    has_node: bool


class Route(NamedTuple):
    rule: str
    scheduler_name: str


IsPlanB = Callable[[str, NewPod], bool]  # (scheduler name, pod) -> whether the pod's policy would use its plan B


class Router:
    """Chooses a new pod's scheduler: the first rule that matches decides."""

    def __init__(
        self,
        rules: tuple[RoutingRule, ...],
        namespace_labels: Callable[[str], Labels | None],
        is_plan_b: IsPlanB = lambda scheduler_name, pod: False,
    ) -> None:
        """Compile the rules.

        `namespace_labels`: namespace -> its labels, None if they are not known (yet). `is_plan_b`: (scheduler name,
        pod) -> True if the pod's metric policy would use its plan B (fallback) there; then the rule's `plan_b` is
        chosen instead.
        """
        self._rules = tuple(_Rule(rule) for rule in rules)
        self._namespace_labels = namespace_labels
        self._is_plan_b = is_plan_b

    def route(self, pod: NewPod) -> Route | None:
        """Return the matching rule and its scheduler; None if the pod keeps its schedulerName."""
        if pod.has_node:
            return None
        labels = self._namespace_labels(pod.namespace) or {NAMESPACE_NAME: pod.namespace}
        for rule in self._rules:
            if rule.matches(pod, labels):
                chosen = self._choose(rule.config, pod)
                return None if chosen == pod.scheduler_name else Route(rule.config.name, chosen)
        return None

    def _choose(self, rule: RoutingRule, pod: NewPod) -> str:
        if rule.plan_b and self._is_plan_b(rule.scheduler_name, pod):
            return rule.plan_b
        return rule.scheduler_name


class _Rule:
    def __init__(self, config: RoutingRule) -> None:
        self.config = config
        self._namespaces = frozenset(config.namespaces)
        self._replaces = frozenset(config.replaces)
        self._of_namespace = _compiled(config.namespace_selector, "namespaceSelector")
        self._of_pod = _compiled(config.pod_selector, "podSelector")

    def matches(self, pod: NewPod, namespace_labels: Labels) -> bool:
        return (
            pod.scheduler_name in self._replaces
            and (not self._namespaces or pod.namespace in self._namespaces)
            and (self._of_namespace is None or self._of_namespace.matches(namespace_labels))
            and (self._of_pod is None or self._of_pod.matches(pod.labels))
        )


def _compiled(selector: LabelSelector | None, path: str) -> CompiledLabelSelector | None:
    """Compile a label selector; return None, which matches everything, if there is none."""
    if selector is None:
        return None
    expressions = [SelectorRequirement(one.key, one.operator, list(one.values)) for one in selector.match_expressions]
    return compile_label_selector(ObjectSelector(dict(selector.match_labels), expressions), path)
