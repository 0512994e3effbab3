"""The PodDisruptionBudgets of the cluster, with their selectors compiled.

A budget whose selector is absent, empty or malformed covers no pod, and a pod without labels is covered by none: both
are kube-scheduler's reading. Whoever watches budgets reports them here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.objects import LabelSelector, Pod
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.errors import DecodeError


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """One budget as preemption reads it."""

    selector: CompiledLabelSelector
    allowed: int  # disruptions it still allows
    disrupted: frozenset[str]  # names of pods whose disruption the apiserver has counted already

    def covers(self, pod: Pod) -> bool:
        """Would the pod's disruption count against this budget? `pod` is of the budget's namespace."""
        labels = pod.metadata.labels
        return bool(labels) and self.selector.matches(labels or {}) and pod.metadata.name not in self.disrupted


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Budget]] = {}  # namespace -> name -> budget that covers something

    def __len__(self) -> int:
        return sum(map(len, self._budgets.values()))

    def set(self, budget: PodDisruptionBudget) -> None:
        """Add a budget, or bring it up to date."""
        meta, status = budget.metadata, budget.status
        selector = _compile(budget.spec.selector)
        if selector is None:
            self.remove(meta.namespace, meta.name)
            return
        compiled = Budget(selector, status.disruptions_allowed, frozenset(status.disrupted_pods or ()))
        self._budgets.setdefault(meta.namespace, {})[meta.name] = compiled

    def remove(self, namespace: str, name: str) -> None:
        """Unknown ones are ignored."""
        budgets = self._budgets.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._budgets.pop(namespace, None)

    def within(self, namespace: str) -> Collection[Budget]:
        """The budgets that may cover pods of a namespace."""
        return self._budgets.get(namespace, {}).values()


def _compile(selector: LabelSelector | None) -> CompiledLabelSelector | None:
    """None for a selector that covers nothing."""
    try:
        compiled = compile_label_selector(selector, "spec.selector")
    except DecodeError:
        return None
    return compiled if compiled.requirements else None
