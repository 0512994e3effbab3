"""ElasticQuotas count pods by namespace and compare by CapacityScheduling's rules."""

from __future__ import annotations

import pytest

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.errors import DecodeError
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.testing import make_pod

GPU = "nvidia.com/gpu"


def quota(
    namespace: str,
    least: dict[str, str] | None = None,
    most: dict[str, str] | None = None,
    *,
    name: str = "quota",
    created: str = "2026-01-01T00:00:00Z",
) -> ElasticQuota:
    spec = ElasticQuotaSpec(
        min=dict(least) if least is not None else None, max=dict(most) if most is not None else None
    )
    return ElasticQuota(ObjectMeta(name=name, namespace=namespace, creation_timestamp=created), spec)


def pod(name: str, namespace: str, **requests: str) -> Pod:
    return make_pod(name, namespace).req(**requests).obj()


def of(*made: ElasticQuota) -> ElasticQuotas:
    quotas = ElasticQuotas()
    for each in made:
        quotas.set(each)
    return quotas


def used(quotas: ElasticQuotas, namespace: str) -> dict[str, int]:
    account = quotas.accounts.get(namespace)
    return {} if account is None else quotas.accounts.places.named(account.used)


def test_pods_are_counted_in_their_namespace_once() -> None:
    quotas = of(quota("a", {"cpu": "4"}))
    quotas.pod_added(pod("p", "a", cpu="1"))
    quotas.pod_added(pod("p", "a", cpu="1"))
    quotas.pod_added(pod("q", "b", cpu="2"))
    assert used(quotas, "a") == {"cpu": 1000}
    assert used(quotas, "") == {"cpu": 1000}  # the sum of namespaces with a quota


def test_pods_that_are_assumed_together_count_as_if_they_came_one_by_one() -> None:
    quotas = of(quota("a", {"cpu": "4"}))
    pods = [pod("p", "a", cpu="1"), pod("q", "a", cpu="1"), pod("r", "b", cpu="2")]
    quotas.pod_added(pods[0])
    quotas.pods_added(pods)
    assert (used(quotas, "a"), used(quotas, "b")) == ({"cpu": 2000}, {"cpu": 2000})
    assert quotas.priorities.lowest("a") == 0
    for each in pods:
        quotas.pod_removed(each)
    assert (used(quotas, "a"), used(quotas, "")) == ({}, {})


def test_a_quota_that_is_created_later_counts_the_pods_that_are_there() -> None:
    quotas = of(quota("a"))
    quotas.pod_added(pod("q", "b", cpu="2"))
    quotas.set(quota("b", {"cpu": "1"}))
    assert quotas.view().is_over_min("b")
    assert used(quotas, "") == {"cpu": 2000}
    quotas.remove("b", "quota")
    assert used(quotas, "") == {}
    assert not quotas.view().is_over_min("b")


def test_what_a_pod_was_counted_for_is_taken_back_even_if_it_changed() -> None:
    quotas = of(quota("a"))
    quotas.pod_added(pod("p", "a", cpu="1"))
    quotas.pod_removed(pod("p", "a", cpu="3"))
    assert used(quotas, "a") == {}


def test_namespaces_without_pods_and_quota_leave_nothing_behind() -> None:
    quotas = of()
    quotas.pod_added(pod("p", "a", cpu="1"))
    quotas.set(quota("a"))
    quotas.pod_removed(pod("p", "a"))
    quotas.remove("a", "quota")
    assert [account.name for account in quotas.accounts] == [""]


def test_of_several_quotas_in_a_namespace_the_oldest_counts() -> None:
    first, second = quota("a", {"cpu": "1"}), quota("a", {"cpu": "2"}, name="other", created="2026-01-02T00:00:00Z")
    quotas = of(second, first)
    assert quotas.of("a") is first
    quotas.remove("a", "quota")
    assert quotas.of("a") is second
    assert quotas.guaranteed_to_all[0] == 2000


def test_in_a_given_max_what_is_not_named_is_zero_but_for_extended_resources() -> None:
    quotas = of(quota("a", most={"cpu": "6"}))
    view = quotas.view()
    assert not view.exceeds_max("a", quotas.request_of(pod("p", "a", cpu="6")))
    assert view.exceeds_max("a", quotas.request_of(pod("p", "a", cpu="1", memory="1")))
    assert not view.exceeds_max("a", quotas.request_of(pod("p", "a", **{GPU: "100"})))


def test_without_max_nothing_is_limited_and_without_min_nothing_is_guaranteed() -> None:
    quotas = of(quota("a"))
    view = quotas.view()
    request = quotas.request_of(pod("p", "a", cpu="9999"))
    assert not view.exceeds_max("a", request)
    assert view.exceeds_min("a", request)
    assert not view.exceeds_min("a", quotas.request_of(pod("p", "a")))


def test_an_extended_resource_is_compared_if_the_pod_names_it() -> None:
    quotas = of(quota("a", {"cpu": "9", GPU: "1"}))
    quotas.pod_added(pod("g", "a", **{GPU: "2"}))
    view = quotas.view()
    assert not view.exceeds_min("a", quotas.request_of(pod("p", "a", cpu="1")))
    assert view.exceeds_min("a", quotas.request_of(pod("p", "a", cpu="1", **{GPU: "0"})))
    assert view.is_over_min("a")
    assert view.exceeds_all_min(quotas.request_of(pod("p", "a", cpu="1")))


def test_a_trial_changes_the_view_and_nothing_else() -> None:
    quotas = of(quota("a", {"cpu": "1"}))
    there = pod("p", "a", cpu="2")
    quotas.pod_added(there)
    view = quotas.view()
    copy = view.clone()
    view.remove(there)
    view.remove(there)
    assert not view.is_over_min("a")
    assert copy.is_over_min("a")
    view.add(there)
    view.add(there)
    assert view.is_over_min("a")
    view.add(pod("q", "b", cpu="9"))  # no quota
    assert used(quotas, "") == {"cpu": 2000}


def test_a_pod_whose_requests_cannot_be_read_counts_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    quotas = of(quota("a"))
    bad = make_pod("p", "a").req(pods="many").phase("Running").obj()
    quotas.pod_added(bad)
    assert used(quotas, "a") == {}
    assert [record.message for record in caplog.records] == ["pod counts for nothing in its quota"]
    quotas.pod_removed(bad)
    with pytest.raises(DecodeError, match=r"requests\[pods\]: expected a quantity"):
        quotas.request_of(bad)


def test_a_bad_amount_changes_nothing_and_is_named() -> None:
    quotas = of(quota("a", {"cpu": "1"}))
    with pytest.raises(DecodeError, match=r"spec\.max\[memory\]: expected a quantity"):
        quotas.set(quota("a", {"cpu": "5"}, {"memory": "lots"}))
    assert quotas.guaranteed_to_all[0] == 1000
