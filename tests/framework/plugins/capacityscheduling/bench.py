"""A profile that fits by resources, keeps ElasticQuotas and preempts by them, in a cluster that only takes notes."""

from __future__ import annotations

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, QuantityMap
from kscheduler.framework.plugins.capacityscheduling.plugin import CapacityScheduling
from kscheduler.quotas.elastic import ElasticQuotas
from tests.framework.plugins.quota_bench import QuotaBench


def make_quota(
    namespace: str, least: QuantityMap | None = None, most: QuantityMap | None = None, name: str = "quota"
) -> ElasticQuota:
    return ElasticQuota(ObjectMeta(name=name, namespace=namespace), ElasticQuotaSpec(least, most))


class Bench(QuotaBench[CapacityScheduling]):
    def __init__(self, *quotas: ElasticQuota) -> None:
        self.quotas = ElasticQuotas()
        for quota in quotas:
            self.quotas.set(quota)
        super().__init__(CapacityScheduling, elastic_quotas=self.quotas)
        self.cache.follow(self.quotas)
