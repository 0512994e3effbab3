"""The PodDisruptionBudgets of the cluster, with their selectors compiled.

As in kube-scheduler, a budget whose selector is absent, empty or malformed covers no pod, and a pod without labels is
covered by none. The event handlers of PodDisruptionBudgets report them here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.objects import LabelSelector, Pod, PodDisruptionBudget
from kscheduler.errors import DecodeError


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """The parts of a PodDisruptionBudget that preemption reads."""

    selector: CompiledLabelSelector
    allowed: int  # disruptions it still allows
    disrupted: frozenset[str]  # names of pods whose disruption the apiserver has counted already

    def covers(self, pod: Pod) -> bool:
        """Return True if evicting `pod`, which must be in the budget's namespace, counts against this budget."""
        labels = pod.metadata.labels
        return bool(labels) and self.selector.matches(labels or {}) and pod.metadata.name not in self.disrupted


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Budget]] = {}  # namespace -> name -> budget that can cover a pod

    def __len__(self) -> int:
        return sum(map(len, self._budgets.values()))

    def set(self, budget: PodDisruptionBudget) -> None:
        """Add a budget or replace its older version; one that covers no pod is removed."""
        meta, status = budget.metadata, budget.status
        selector = _compile(budget.spec.selector)
        if selector is None:
            self.remove(meta.namespace, meta.name)
            return
        compiled = Budget(selector, status.disruptions_allowed, frozenset(status.disrupted_pods or ()))
        self._budgets.setdefault(meta.namespace, {})[meta.name] = compiled

    def remove(self, namespace: str, name: str) -> None:
        """Remove a budget; unknown names are ignored."""
        budgets = self._budgets.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._budgets.pop(namespace, None)

    def within(self, namespace: str) -> Collection[Budget]:
        """Return the PodDisruptionBudgets of a namespace that can cover a pod."""
        return self._budgets.get(namespace, {}).values()


def _compile(selector: LabelSelector | None) -> CompiledLabelSelector | None:
    """Compile a budget's selector; None if it is absent, empty or malformed and so covers no pod."""
    try:
        compiled = compile_label_selector(selector, "spec.selector")
    except DecodeError:
        return None
    return compiled if compiled.requirements else None
