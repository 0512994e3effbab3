"""CapacityScheduling keeps namespaces within their quotas, and takes back what was lent."""

from __future__ import annotations

from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    QuantityMap,
)
from kscheduler.api.objects import PodDisruptionBudget as Budget
from kscheduler.framework.events import Action
from kscheduler.framework.plugins.capacityscheduling.plugin import NAMED_NODES
from kscheduler.framework.status import Code, unresolvable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.capacityscheduling.bench import Bench, make_quota

ROOMY: QuantityMap = {"cpu": "100", "memory": "100Gi"}


def pod(name: str, namespace: str = "a", cpu: str = "1", priority: int = 0) -> PodBuilder:
    return make_pod(name, namespace).req(cpu=cpu).priority(priority)


def bench(*quotas: ElasticQuota, nodes: tuple[str, ...] = ("n1",)) -> Bench:
    made = Bench(*quotas)
    made.nodes(*nodes)
    return made


# --- PreFilter ---


def test_a_namespace_without_quota_is_not_limited() -> None:
    made = bench(make_quota("b", {"cpu": "1"}, {"cpu": "1"}))
    assert made.choose(pod("p", "a", "4")) == "n1"


def test_a_pod_beyond_its_quotas_max_is_rejected() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, {"cpu": "2"}))
    assert made.choose(pod("p", cpu="2")) == "n1"
    made.place(pod("there"), "n1")
    assert made.why_not(pod("p", cpu="2")) == (
        "Pod a/p is rejected in PreFilter because ElasticQuota a is more than Max"
    )


def test_what_is_used_beyond_min_comes_from_what_others_do_not_use() -> None:
    made = bench(make_quota("a", {"cpu": "1"}, ROOMY), make_quota("b", {"cpu": "2"}, ROOMY))
    made.place(pod("there"), "n1")
    assert made.choose(pod("p", cpu="2")) == "n1"
    made.place(pod("other", "b"), "n1")
    assert made.why_not(pod("p", cpu="2")) == (
        "Pod a/p is rejected in PreFilter because total ElasticQuota used is more than min"
    )


def test_assumed_pods_count_and_forgotten_ones_do_not() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, {"cpu": "2"}))
    assumed = PodInfo(pod("q", cpu="2").obj())
    made.cache.assume(assumed, "n1")
    assert made.why_not(pod("p"))
    made.cache.forget(assumed.uid)
    assert made.choose(pod("p")) == "n1"


def test_nominated_pods_of_the_namespace_count_unless_they_are_less_important() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, {"cpu": "2"}))
    made.nominate(pod("expected", cpu="2", priority=5), "n1")
    assert "more than Max" in made.why_not(pod("p", priority=5))
    assert made.choose(pod("p", priority=6)) == "n1"
    assert made.choose(pod("expected", cpu="2", priority=5)) == "n1"  # itself


def test_nominated_pods_of_others_count_in_the_sum_while_their_quota_is_within_min() -> None:
    made = bench(make_quota("a", {"cpu": "2"}, ROOMY), make_quota("b", {"cpu": "1"}, ROOMY))
    made.nominate(pod("expected", "b", "2"), "n1")
    made.nominate(pod("gone", "b", "2"), "no such node")
    assert "total ElasticQuota used" in made.why_not(pod("p", cpu="2"))
    assert made.choose(pod("p", cpu="1")) == "n1"


# --- PostFilter ---


async def test_beyond_its_min_a_pod_evicts_less_important_pods_of_its_namespace() -> None:
    made = bench(make_quota("a", {"cpu": "1"}, ROOMY), make_quota("b", {"cpu": "9"}, ROOMY))
    made.place(pod("mine", cpu="2", priority=1), "n1")
    made.place(pod("equal", cpu="1", priority=5), "n1")
    made.place(pod("theirs", "b", priority=0), "n1")
    assert await made.victims(pod("p", cpu="2", priority=5)) == ["mine"]


async def test_within_its_min_a_pod_takes_back_what_was_lent_from_pods_of_any_priority() -> None:
    made = bench(make_quota("a", {"cpu": "2"}, ROOMY), make_quota("b", {"cpu": "2"}, ROOMY))
    for number, priority in enumerate((9, 7, 8, 7)):
        made.place(pod(f"theirs-{number}", "b", priority=priority).started(f"2026-01-01T00:00:0{number}Z"), "n1")
    victims = await made.victims(pod("p", cpu="1", priority=0))
    assert victims == ["theirs-3"]  # the least important, the latest of those


async def test_others_are_evicted_only_down_to_their_min() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, ROOMY), make_quota("b", {"cpu": "3"}, ROOMY))
    for number in range(4):
        made.place(pod(f"theirs-{number}", "b"), "n1")
    assert made.refused(pod("p", cpu="2")) == ("0/1 nodes are available: 1 Insufficient cpu.")
    assert await made.victims(pod("p", cpu="1")) != []


async def test_a_pod_without_quota_evicts_less_important_pods_without_quota() -> None:
    made = bench(make_quota("b", {"cpu": "9"}, ROOMY))
    made.place(pod("guarded", "b", "2"), "n1")
    made.place(pod("mine", "a", priority=1), "n1")
    made.place(pod("other", "c", priority=2), "n1")
    assert await made.victims(pod("p", "a", priority=5)) == ["mine"]


def test_a_node_without_possible_victims_is_named() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, ROOMY))
    made.place(pod("there", "b", "4"), "n1")
    result, status = made.preempt(pod("p"))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE
    assert status.message == "0/1 nodes are available: 1 No victims found on node n1 for preemptor pod p."
    assert result is not None
    assert result.nominated_node_name == ""


def test_many_nodes_without_possible_victims_are_counted_and_not_looked_at_where_all_pods_are_too_important() -> None:
    nodes = tuple(f"n{number}" for number in range(NAMED_NODES + 1))
    made = bench(make_quota("a", {"cpu": "1"}, {"cpu": "1"}), nodes=nodes)
    made.place(pod("there", priority=5), "n0")
    assert made.refused(pod("p", priority=5)) == "0/11 nodes are available: 11 No victims found for preemptor pod p."
    made.place(pod("less", cpu="2", priority=4), "n1")
    message = made.refused(pod("q", cpu="2", priority=5))
    assert message == (
        "0/11 nodes are available: 1 global quota max exceeded, 10 No victims found for preemptor pod q."
    )


def test_room_that_the_quota_does_not_allow_is_not_made() -> None:
    made = bench(make_quota("a", {"cpu": "1"}, {"cpu": "2"}), nodes=("n1", "n2"))
    made.place(pod("less", cpu="1"), "n1")
    made.place(pod("more", cpu="2", priority=9), "n2")
    assert "1 global quota max exceeded" in made.refused(pod("p", cpu="1", priority=5))


async def test_a_pod_over_max_evicts_until_its_quota_is_kept_though_the_node_has_room() -> None:
    made = bench(make_quota("a", {"cpu": "2"}, {"cpu": "2"}))
    made.place(pod("less", cpu="1"), "n1")
    made.place(pod("least", cpu="1", priority=-1), "n1")
    assert await made.victims(pod("p", cpu="1", priority=5)) == ["least"]


async def test_a_victim_that_neither_fits_nor_is_within_the_quota_is_a_victim_once() -> None:
    made = bench(make_quota("a", {"cpu": "1"}, {"cpu": "4"}))
    made.place(pod("less", cpu="4"), "n1")
    made.nominate(pod("expected", cpu="3", priority=5), "n1")
    result, status = made.preempt(pod("p", cpu="1", priority=5))
    assert status is None
    assert result is not None
    assert result.nominated_node_name == "n1"
    await made.evictions.run()
    assert made.evictions.log == ["mark less", "delete less", "deleted less"]


async def test_violated_budgets_count_for_victims_that_only_the_quota_demands() -> None:
    made = bench(make_quota("a", {"cpu": "2"}, {"cpu": "2"}), nodes=("n1", "n2"))
    made.place(pod("guarded", cpu="1").label(app="x"), "n1")
    made.place(pod("free", cpu="1"), "n2")
    selector = LabelSelector(match_labels={"app": "x"})
    made.budgets.set(
        Budget(ObjectMeta(name="b", namespace="a"), PodDisruptionBudgetSpec(selector), PodDisruptionBudgetStatus(0))
    )
    assert await made.victims(pod("p", cpu="1", priority=5)) == ["free"]


# --- eligibility ---


def test_preemption_policy_never_is_kept() -> None:
    made = bench(make_quota("a", {"cpu": "4"}, ROOMY))
    made.place(pod("less", cpu="4"), "n1")
    message = made.refused(pod("p", priority=5).preemption_policy("Never"))
    assert message == "not eligible due to preemptionPolicy=Never."


def test_a_pod_waits_for_a_terminating_pod_that_makes_room() -> None:
    made = bench(make_quota("a", {"cpu": "1"}, ROOMY), make_quota("b", {"cpu": "1"}, ROOMY))
    made.place(pod("less", cpu="2").terminating(), "n1")
    waiting = pod("p", cpu="3", priority=5).nominated_node("n1")
    assert made.refused(waiting) == "not eligible due to a terminating pod on the nominated node."
    assert "No victims" not in made.refused(waiting)
    helped = made.refused(waiting, {"n1": unresolvable("taint")})
    assert helped == "0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def test_a_terminating_pod_of_another_namespace_counts_only_if_its_room_was_lent() -> None:
    made = bench(make_quota("a", {"cpu": "2"}, ROOMY), make_quota("b", {"cpu": "1"}, ROOMY))
    made.place(pod("theirs", "b", "2").terminating(), "n1")
    waiting = pod("p", cpu="2", priority=5).nominated_node("n1")
    assert "terminating pod" in made.refused(waiting)
    beyond = pod("p", cpu="3", priority=5).nominated_node("n1")
    assert "terminating pod" not in made.refused(beyond)


async def test_nobody_else_is_evicted_while_the_victims_of_a_pod_are_being_evicted() -> None:
    made = bench(make_quota("a", {"cpu": "8"}, ROOMY), nodes=("n1", "n2"))
    made.place(pod("less", cpu="4"), "n1")
    made.place(pod("other", cpu="4"), "n2")
    asking = pod("p", cpu="1", priority=5)
    result, _ = made.preempt(asking)
    assert result is not None
    assert made.evictions.work
    assert made.refused(asking) == "not eligible due to a terminating pod on the nominated node."
    await made.evictions.run()


# --- the queue and the compiled lane ---


def test_deleted_and_smaller_pods_and_every_change_of_a_quota_requeue() -> None:
    made = bench(make_quota("a", {"cpu": "4"}))
    registered = made.plugin.events_to_register()
    assert [(each.event.resource, each.event.action) for each in registered] == [
        ("Pod", Action.DELETE),
        ("Pod", Action.UPDATE_POD_SCALE_DOWN),
        ("elasticquotas.v1alpha1.scheduling.x-k8s.io", Action.ALL),
    ]
    hints = [each.hint for each in registered]
    assert hints[0] is hints[2] is None
    assert hints[1] is not None
    waiting, others = pod("p").obj(), {name: pod(name, name).node("n1").obj() for name in ("a", "b")}
    assert hints[1](waiting, waiting, waiting)
    assert hints[1](waiting, others["a"], others["a"])
    assert not hints[1](waiting, others["b"], others["b"])
