"""PodDisruptionBudgets (policy/v1): how many pods of an application may be disrupted at a time."""

from __future__ import annotations

from kscheduler.api.objects import APIStruct, LabelSelector, ObjectMeta


class PodDisruptionBudgetSpec(APIStruct, frozen=True):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(APIStruct, frozen=True):
    """Written by the disruption controller; a new budget allows no disruption until it has a status."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None  # name of a pod whose eviction is under way -> since when


class PodDisruptionBudget(APIStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"
