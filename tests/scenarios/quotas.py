"""ElasticQuotas for the scenarios of this package, with a configuration that keeps them."""

from __future__ import annotations

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, QuantityMap

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    preFilter: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
    reserve: {enabled: [{name: CapacityScheduling}]}
"""


def quota(namespace: str, least: QuantityMap, most: QuantityMap | None = None) -> ElasticQuota:
    return ElasticQuota(ObjectMeta(name="quota", namespace=namespace), ElasticQuotaSpec(least, most))
