"""How namespaces stand with their quotas, resource by resource."""

from __future__ import annotations

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, QuantityMap
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.quotas.quota_standings import QuotaStanding, over_min, quota_amounts, standings
from kscheduler.testing import make_pod

GPU = "nvidia.com/gpu"


def quota(namespace: str, least: QuantityMap | None = None, most: QuantityMap | None = None) -> ElasticQuota:
    return ElasticQuota(ObjectMeta(name="quota", namespace=namespace), ElasticQuotaSpec(least, most))


def of(*given: ElasticQuota) -> ElasticQuotas:
    quotas = ElasticQuotas()
    for each in given:
        quotas.set(each)
    return quotas


def test_what_is_used_guaranteed_or_limited_is_listed_and_pods_are_not() -> None:
    quotas = of(quota("a", {"cpu": "1", GPU: "2"}))
    quotas.pod_added(make_pod("p", "a").req(cpu="1500m", memory="1Gi").node("n").obj())
    assert list(standings(quotas, "a")) == [
        QuotaStanding("cpu", 0, 1500, 1000, None),
        QuotaStanding("memory", 1, 1 << 30, 0, None),
        QuotaStanding(GPU, 4, 0, 2, None),
    ]
    assert list(standings(quotas, "b")) == []


def test_a_max_lists_what_it_forbids_by_not_naming_it() -> None:
    found = {each.resource: each.max for each in standings(of(quota("a", most={"cpu": "1"})), "a")}
    assert found == {"cpu": 1000, "memory": 0, "ephemeral-storage": 0}


def test_amounts_for_metrics_are_in_cores_and_units() -> None:
    quotas = of(quota("a", {"cpu": "1500m"}, {"cpu": "2", "memory": "1Ki", "ephemeral-storage": "1"}), quota("b"))
    quotas.pod_added(make_pod("p", "a").req(cpu="250m").node("n").obj())
    assert quota_amounts(quotas) == {
        ("a", "cpu", "used"): 0.25,
        ("a", "cpu", "min"): 1.5,
        ("a", "cpu", "max"): 2.0,
        ("a", "memory", "used"): 0.0,
        ("a", "memory", "min"): 0.0,
        ("a", "memory", "max"): 1024.0,
        ("a", "ephemeral-storage", "used"): 0.0,
        ("a", "ephemeral-storage", "min"): 0.0,
        ("a", "ephemeral-storage", "max"): 1.0,
    }


def test_those_beyond_their_min_are_named_the_greediest_first() -> None:
    quotas = of(quota("a", {"cpu": "1"}), quota("b", {"cpu": "1"}), quota("c", {"cpu": "1"}), quota("d"))
    for namespace, cpu in (("a", "2"), ("b", "3"), ("c", "1"), ("free", "9")):
        quotas.pod_added(make_pod("p", namespace).uid(namespace).req(cpu=cpu).node("n").obj())
    assert over_min(quotas, 0) == [("b", 2000), ("a", 1000)]
