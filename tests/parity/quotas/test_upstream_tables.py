"""The cases of scheduler-plugins' own tests of CapacityScheduling: ours answers each as upstream's does.

In these cases a quota may use something else than the pods of the case request; the difference is charged as if by one
more pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate
from kscheduler.framework.plugins.capacityscheduling.plugin import QuotaCheck
from kscheduler.framework.plugins.capacityscheduling.victims import find_victims
from kscheduler.framework.search_outcomes import Decision
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.quotas.accounts import Accounts
from kscheduler.quotas.amounts import NATIVE, Request
from kscheduler.quotas.elastic import ElasticQuotas
from kscheduler.snapshot.pod_info import PodInfo
from tests.framework.plugins.capacityscheduling.bench import Bench
from tests.framework.plugins.quota_bench import PROFILE
from tests.parity.quotas.upstream_tables import (
    Amounts,
    Case,
    amounts_of,
    names_of,
    node_of,
    pod_of,
    quota_object,
    quota_of,
    status_code,
    upstream_tables,
)

pytestmark = pytest.mark.controlplane

ALL_CASES = 48
UNLIMITED = (1 << 63) - 1
REST = "the rest"


@pytest.fixture(scope="module")
def tables() -> dict[str, list[Case]]:
    return upstream_tables()


def used(quotas: ElasticQuotas, namespace: str) -> Amounts:
    account = quotas.accounts.get(namespace)
    return {} if account is None else quotas.accounts.places.named(account.used)


def nonzero(amounts: Mapping[str, int]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def fill(quotas: ElasticQuotas, infos: Iterable[Case]) -> None:
    """Let each quota use what the case says, be it more or less than its pods request."""
    for info in infos:
        namespace = info["Namespace"]
        rest = amounts_of(info.get("Used"))
        for name, amount in used(quotas, namespace).items():
            rest[name] = rest.get(name, 0) - amount
        account = quotas.accounts.open(namespace)
        quotas.accounts.charge(account, f"{REST} of {namespace}", quotas.accounts.places.request(rest))


def quotas_of(infos: Iterable[Case]) -> ElasticQuotas:
    quotas = ElasticQuotas()
    for info in infos:
        quotas.set(quota_of(info))
    fill(quotas, infos)
    return quotas


def request_of(quotas: ElasticQuotas, resource: Case) -> Request:
    return quotas.accounts.places.request(dict.fromkeys(NATIVE, 0) | amounts_of(resource))


def check_quota(quotas: ElasticQuotas, namespace: str, expected: Case | None) -> None:
    if expected is None:
        assert namespace not in quotas
        return
    found = quotas.of(namespace)
    assert found is not None
    account = quotas.accounts.get(namespace)
    assert account is not None
    assert used(quotas, namespace) == nonzero(amounts_of(expected["Used"]))
    assert {holder for holder in account.holders if not holder.startswith(REST)} == names_of(expected["pods"])
    names, most = quotas.accounts.places.names, amounts_of(expected["Max"])
    if UNLIMITED in most.values():
        assert account.limits == {}
    else:
        assert nonzero({names[place]: amount for place, amount in account.limits.items()}) == nonzero(most)
    guaranteed = {name: quotas.guaranteed(namespace, place) for place, name in enumerate(names)}
    assert nonzero(guaranteed) == nonzero(amounts_of(expected["Min"]))


def bench_of(case: Case, pods: list[Case]) -> Bench:
    bench = Bench(*(quota_of(info) for info in case["elasticQuotas"].values()))
    for node in case["nodes"]:
        bench.cache.set_node(node_of(node).obj())
    for pod in pods:
        made = pod_of(pod).obj()
        bench.place(pod_of(pod), made.spec.node_name)
    return bench


def test_all_cases_are_found(tables: dict[str, list[Case]]) -> None:
    assert sum(map(len, tables.values())) == ALL_CASES


# --- comparison and accounting ---


def test_requests_are_added_and_subtracted(tables: dict[str, list[Case]]) -> None:
    for name, times in (("TestReserveResource", 1), ("TestUnReserveResource", -1)):
        for case in tables[name]:
            quotas, accounts = ElasticQuotas(), Accounts()
            total = amounts_of(case["before"]["Used"])
            for pod in case["pods"]:
                account = accounts.open("ns1")
                accounts.charge(account, pod_of(pod).obj().metadata.uid, quotas.request_of(pod_of(pod).obj()))
            for place, amount in enumerate(accounts.open("ns1").used):
                resource = quotas.accounts.places.names[place]
                total[resource] = total.get(resource, 0) + times * amount
            assert nonzero(total) == nonzero(amounts_of(case["expected"]["Used"])), case["name"]


def test_more_than_min_and_max_means_what_it_means_upstream(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestUsedOverMinWith"]:
        quotas = quotas_of([case["before"]])
        request = request_of(quotas, case["podRequest"])
        assert quotas.view().exceeds_min("ns1", request) is case["expected"], case["name"]
    for case in tables["TestUsedOverMaxWith"]:
        quotas = quotas_of([case["before"]])
        request = request_of(quotas, case["podRequest"])
        assert quotas.view().exceeds_max("ns1", request) is case["expected"], case["name"]
    for case in tables["TestUsedOverMin"]:
        assert quotas_of([case["before"]]).view().is_over_min("ns1") is case["expected"], case["name"]


def test_quotas_are_read_as_upstream(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestAddElasticQuota"]:
        check_events(case, [quota_object(quota) for quota in case["elasticQuotas"]])
    for case in tables["TestUpdateElasticQuota"]:
        check_events(case, [quota_object(case["oldElasticQuota"]), quota_object(case["newElasticQuota"])])
    for case in tables["TestNewElasticQuotaInfo"]:
        stated = case["elasticQuotaParam"]
        call = {"args": [stated["namespace"], "q", stated["max"], stated["min"]]}
        quotas = ElasticQuotas()
        quotas.set(quota_object(call))
        check_quota(quotas, stated["namespace"], case["expected"])
    for case in tables["TestDeleteElasticQuota"]:
        quota = quota_object(case["elasticQuota"])
        quotas = ElasticQuotas()
        quotas.set(quota)
        quotas.remove(quota.metadata.namespace, quota.metadata.name)
        for namespace in case["ns"]:
            check_quota(quotas, namespace, case["expected"].get(namespace))


def check_events(case: Case, objects: list[ElasticQuota]) -> None:
    quotas = ElasticQuotas()
    for each in objects:
        quotas.set(each)
    for namespace in case["ns"]:
        check_quota(quotas, namespace, case["expected"].get(namespace))


# --- pods that come and go ---


def test_pods_on_nodes_are_counted_as_upstream(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestAddPod"]:
        check_pods(case, added=case["pods"], gone=[])
    for case in tables["TestDeletePod"]:
        check_pods(case, added=case["existingPods"], gone=case["deletePods"])
    for case in tables["TestUpdatePod"]:
        # The informer shows only pods that have not ended: a pod that ends is deleted there.
        ended = [new for old, new in case["updatePods"] if has_ended(new) and not has_ended(old)]
        check_pods(case, added=[old for old, _ in case["updatePods"]], gone=ended)


def has_ended(call: Case) -> bool:
    return pod_of(call).obj().status.phase in ("Succeeded", "Failed")


def check_pods(case: Case, added: list[Case], gone: list[Case]) -> None:
    cache, quotas = Cache(), ElasticQuotas()
    quotas.set(quota_object(case["elasticQuota"]))
    cache.follow(quotas)
    for pod in added:
        cache.set_pod(PodInfo(pod_of(pod).obj()))
    for pod in gone:
        cache.remove_pod(pod_of(pod).obj().metadata.uid)
    for namespace in case["ns"]:
        check_quota(quotas, namespace, case["expected"][namespace])


def test_reserving_and_unreserving_is_assuming_and_forgetting(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestReserve"]:
        cache, quotas = Cache(), quotas_of(list(case["elasticQuotas"].values()))
        cache.follow(quotas)
        for pod, expected in zip(case["pods"], case["expected"], strict=True):
            cache.assume(PodInfo(unbound(pod)), "node-a")
            check_quota(quotas, "ns1", expected["ns1"])
    for case in tables["TestUnreserve"]:
        (info,) = case["elasticQuotas"].values()
        assumed = [pod for pod in case["pods"] if unbound(pod).metadata.uid in names_of(info["pods"])]
        others = names_of(info["pods"]) - {unbound(pod).metadata.uid for pod in assumed}
        cache, quotas = Cache(), ElasticQuotas()
        quotas.set(quota_of(info))
        cache.follow(quotas)
        for pod in assumed:
            cache.assume(PodInfo(unbound(pod)), "node-a")
        fill(quotas, [info])
        for pod, expected in zip(case["pods"], case["expected"], strict=True):
            cache.forget(unbound(pod).metadata.uid)
            wanted = {"args": sorted(names_of(expected["ns1"]["pods"]) - others)}
            check_quota(quotas, "ns1", expected["ns1"] | {"pods": wanted})


def unbound(call: Case) -> Pod:
    return pod_of(call).node("").obj()


# --- decisions ---


def test_pre_filter_decides_as_upstream(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestPreFilter"]:
        bench = Bench(*(quota_of(info) for info in case["elasticQuotas"].values()))
        bench.nodes("somewhere")
        fill(bench.quotas, case["elasticQuotas"].values())
        for pod, expected in zip(case["podInfos"], case["expected"], strict=True):
            call = [pod["podName"], pod["podNamespace"], pod["memReq"], 0, 0, 0, pod["podName"], ""]
            info = PodInfo(pod_of({"call": "makePod", "args": call}).obj())
            _, status = bench.plugin.pre_filter(CycleState(), info)
            code = "Success" if status is None else "".join(map(str.title, status.code.name.split("_")))
            assert code == status_code(expected), case["name"]


def test_preemption_nominates_the_same_node(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestPostFilter"]:
        bench = bench_of(case, case["existPods"])
        fill(bench.quotas, case["elasticQuotas"].values())
        result, status = bench.preempt(pod_of(case["pod"]), {"node-a": unschedulable("")})
        assert case["wantStatus"]["args"] == [{"name": "framework.Success"}]
        assert status is None, case["name"]
        assert result is not None
        assert [result.nominated_node_name] == case["wantResult"]["args"], case["name"]
        for work in bench.evictions.work:  # the evictions themselves
            work.close()


def test_dry_runs_find_the_same_victims(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestDryRunPreemption"]:
        bench = bench_of(case, case["pods"])
        fill(bench.quotas, case["elasticQuotas"].values())
        info, state = PodInfo(pod_of(case["pod"]).obj()), CycleState()
        assert not isinstance(bench.framework.schedule_pod(state, info), Decision)
        found = [
            tried
            for node in bench.cache.table
            if isinstance(tried := try_node(bench, state, info, node.name), Candidate)
        ]
        wanted = {
            each["name"]: (
                sorted(pod_of(pod).obj().metadata.uid for pod in each["victims"]["Pods"]),
                each["victims"]["NumPDBViolations"],
            )
            for each in case["want"]
        }
        assert {
            each.node_name: (sorted(victim.uid for victim in each.victims), each.violations) for each in found
        } == wanted, case["name"]


def try_node(bench: Bench, state: CycleState, pod: PodInfo, name: str) -> Candidate | Status:
    node = bench.cache.table.get(name)
    assert node is not None
    what_if = bench.handle.profiles[PROFILE].what_if(state, pod, name)
    return find_victims(what_if, what_if.state.read("CapacityScheduling", QuotaCheck), pod, node, bench.budgets, 0.0)


def test_the_same_pods_may_preempt(tables: dict[str, list[Case]]) -> None:
    for case in tables["TestPodEligibleToPreemptOthers"]:
        bench = bench_of(case, case["existPods"])
        fill(bench.quotas, case["elasticQuotas"].values())
        nominated = case["nominatedNodeStatus"]
        # Go's nil status has the code Success; here a node that rejected the pod for want of room is like that.
        status = unschedulable("") if nominated is None else unresolvable("")
        info, state = PodInfo(pod_of(case["pod"]).obj()), CycleState()
        bench.plugin.pre_filter(state, info)
        reason = bench.plugin._why_ineligible(state, info, {"node-a": status})
        assert (not reason) is case["expected"], (case["name"], reason)
