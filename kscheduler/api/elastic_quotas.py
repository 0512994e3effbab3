"""ElasticQuota of scheduling.x-k8s.io/v1alpha1, the kind of scheduler-plugins' CapacityScheduling."""

from __future__ import annotations

from kscheduler.api.objects import APIStruct, NamespacedObject, QuantityMap


class ElasticQuotaSpec(APIStruct, frozen=True):
    """What the pods of the namespace are guaranteed together (`min`), and the most they may use (`max`)."""

    min: QuantityMap | None = None
    max: QuantityMap | None = None


class ElasticQuotaStatus(APIStruct, frozen=True):
    used: QuantityMap | None = None  # by the running pods of the namespace


class ElasticQuota(NamespacedObject, frozen=True):
    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()
