"""A gang evicts the cheapest units after which its whole minimum fits, or nobody; the trial leaves no trace."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import event, given, settings
from msgspec.structs import replace

from kscheduler.api.objects import Node
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.gangs.gang import Disruption
from kscheduler.gangs.preemption import whole
from kscheduler.gangs.stand_in import face_of
from kscheduler.gangs.texts import IN_VAIN, NOBODY_TO_EVICT, NOT_YET, POLICY_NEVER, STILL_EVICTING
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.framework.plugins.defaultpreemption.fakes import budget
from tests.gangs.builders import key_of
from tests.gangs.preemption.bench import HIGH, Cluster, low

LANES = pytest.mark.parametrize("has_lane", [True, False], ids=["by kernels", "one by one"])


@LANES
def test_as_many_leave_as_are_needed_and_all_members_are_nominated(has_lane: bool) -> None:
    cluster = Cluster(3, has_lane=has_lane)
    for i in range(6):
        cluster.place(low(f"low-{i}", priority=i), f"n{i % 3}")
    cluster.set_gang("train", 2)
    members = cluster.members(3)
    answer = cluster.preempt(members, 2)
    assert sorted(cluster.executor.victims) == ["low-0", "low-1"]
    assert len(answer.nominations) == 2, "the third one is above the minimum"
    assert answer.text == "preemption: 2 pods are evicted, and room for 2 pods of the gang is kept."


@LANES
def test_nobody_leaves_if_the_minimum_does_not_fit_even_then(has_lane: bool) -> None:
    cluster = Cluster(2, has_lane=has_lane)
    cluster.place(low("low"), "n0")
    for name, node in (("a", "n0"), ("b", "n1")):
        cluster.place(low(name, priority=HIGH), node)
    cluster.place(low("c", priority=HIGH), "n1")
    cluster.set_gang("train", 2)
    answer = cluster.preempt(cluster.members(2), 2)
    assert answer == whole.Answer(IN_VAIN)
    assert not cluster.executor.victims


def full_for_two(cluster: Cluster) -> None:
    """Set up gangs of two members, of which one fits once a pod of low priority has left."""
    cluster.place(low("low"), "n0")
    for name, node in (("a", "n0"), ("b", "n1"), ("c", "n1")):
        cluster.place(low(name, priority=HIGH), node)
    for name in ("train", "later"):
        cluster.set_gang(name, 2)


def test_after_a_search_in_vain_gangs_wait_for_their_turn_with_what_is_known_of_them() -> None:
    cluster = Cluster(2)
    full_for_two(cluster)
    train, later = cluster.members(2), cluster.members(2, of="later")
    assert cluster.preempt(train, 2).text == IN_VAIN
    assert not cluster.retried
    assert cluster.preempt(later, 2, of="later").text == NOT_YET
    assert cluster.preempt(train, 2).text == IN_VAIN, "nothing else is known of it meanwhile"
    assert len(cluster.retried) == 2
    assert all(seconds > 0 for _, seconds in cluster.retried)
    cluster.evictions.now += 10.0
    assert cluster.preempt(later, 2, of="later").text == IN_VAIN
    assert len(cluster.retried) == 2


def test_a_gang_that_found_victims_is_no_longer_one_that_was_searched_in_vain() -> None:
    cluster = Cluster(2)
    full_for_two(cluster)
    train, later = cluster.members(2), cluster.members(2, of="later")
    assert cluster.preempt(train, 2).text == IN_VAIN
    cluster.evictions.now += 10.0
    assert cluster.preempt(train, 1).evicts
    assert cluster.preempt(later, 2, of="later").text == IN_VAIN
    assert cluster.preempt(train, 2).text == NOT_YET


def test_pods_where_evictions_cannot_help_are_no_victims() -> None:
    cluster = Cluster(1)
    cluster.cache.set_node(closed(cluster, "n0"))
    cluster.place(low("low", cpu=4), "n0")
    cluster.set_gang("train", 1)
    assert cluster.preempt(cluster.members(1), 1) == whole.Answer(NOBODY_TO_EVICT)


def closed(cluster: Cluster, name: str) -> Node:
    node = cluster.cache.table.get(name)
    assert node is not None
    return replace(node.node, spec=replace(node.node.spec, unschedulable=True))


def test_the_gang_waits_while_a_victim_ends_on_a_nominated_node() -> None:
    cluster = Cluster(1)
    pod = make_pod("old").req(cpu=4).priority(1).terminating()
    pod = pod.condition("DisruptionTarget", "True", "PreemptionByScheduler")
    cluster.place(pod, "n0")
    cluster.set_gang("train", 1)
    members = cluster.members(1)
    cluster.nominations.nominate(members[0].pod_info, "n0")
    answer = cluster.preempt(members, 1)
    assert answer == whole.Answer(STILL_EVICTING, {members[0].uid: "n0"}, evicts=True)


def test_the_room_of_pods_that_end_anyway_is_used_first() -> None:
    cluster = Cluster(2)
    cluster.place(low("ending", cpu=4, priority=5).terminating(), "n0")
    cluster.place(low("low", cpu=4, priority=1), "n1")
    cluster.set_gang("train", 2)
    answer = cluster.preempt(cluster.members(2), 2)
    assert set(answer.nominations.values()) == {"n0"}
    assert not cluster.executor.victims


def test_a_member_that_never_preempts_keeps_its_gang_from_it() -> None:
    cluster = Cluster(1)
    cluster.place(low("low", cpu=4), "n0")
    cluster.set_gang("train", 1)
    members = cluster.members(1, make_pod("x").req(cpu=2).priority(HIGH).preemption_policy("Never"))
    assert cluster.preempt(members, 1) == whole.Answer(POLICY_NEVER)


@pytest.mark.parametrize("plugins", [(), ("CapacityScheduling",), ("CapacityScheduling", "DefaultPreemption")])
def test_where_other_rules_than_those_of_default_preemption_hold_nobody_is_evicted(plugins: tuple[str, ...]) -> None:
    cluster = Cluster(1)
    for framework in cluster.side.profiles.values():
        framework.post_filters = plugins
    cluster.place(low("low", cpu=4), "n0")
    cluster.set_gang("train", 1)
    assert cluster.preempt(cluster.members(1), 1) == whole.NOT_TRIED


def test_only_pods_below_the_least_important_member_are_evicted() -> None:
    cluster = Cluster(1)
    cluster.place(low("low", cpu=4, priority=5), "n0")
    cluster.set_gang("train", 2)
    members = cluster.members(1) + cluster.members(2, make_pod("x").req(cpu=2).priority(5))[1:]
    assert cluster.preempt(members, 2).text == NOBODY_TO_EVICT


def test_a_gang_keeps_its_own_members() -> None:
    cluster = Cluster(1)
    cluster.place(low("train-9", cpu=4, of="train"), "n0")
    cluster.set_gang("train", 2)
    assert cluster.preempt(cluster.members(1), 1).text == NOBODY_TO_EVICT


def test_members_above_the_minimum_leave_one_by_one_where_room_is_needed() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 2)
    for i, node in enumerate(("n0", "n0", "n1", "n1")):
        cluster.place(low(f"batch-{i}", of="batch"), node)
    cluster.set_gang("train", 2)
    cluster.preempt(cluster.members(2), 2)
    assert len(cluster.executor.victims) == 2


def test_a_gang_whose_minimum_cannot_stay_goes_whole() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 3)
    for i, node in enumerate(("n0", "n0", "n1", "n1")):
        cluster.place(low(f"batch-{i}", of="batch"), node)
    cluster.set_gang("train", 2)
    cluster.preempt(cluster.members(2), 2)
    assert sorted(cluster.executor.victims) == [f"batch-{i}" for i in range(4)]


def test_a_gang_that_is_disrupted_as_one_goes_whole_although_it_has_surplus() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 2, disruption=Disruption.ALL)
    for i, node in enumerate(("n0", "n0", "n1", "n1")):
        cluster.place(low(f"batch-{i}", of="batch"), node)
    cluster.set_gang("train", 1)
    cluster.preempt(cluster.members(1), 1)
    assert len(cluster.executor.victims) == 4


def test_a_gang_with_an_important_member_loses_no_more_than_its_surplus() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 2)
    for i, node in enumerate(("n0", "n0", "n1")):
        cluster.place(low(f"batch-{i}", of="batch", priority=HIGH if i == 2 else 1), node)
    cluster.place(low("other", priority=HIGH), "n1")
    cluster.set_gang("train", 1)
    cluster.preempt(cluster.members(1), 1)
    assert len(cluster.executor.victims) == 1
    cluster.set_gang("train", 2)
    assert cluster.preempt(cluster.members(2), 2).text == IN_VAIN


def test_terminating_members_do_not_count_towards_the_minimum_of_a_victim() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 2)
    cluster.place(low("batch-0", of="batch", cpu=1).terminating(), "n1")
    for i, node in ((1, "n0"), (2, "n1")):
        cluster.place(low(f"batch-{i}", of="batch", cpu=3), node)
    cluster.set_gang("train", 1)
    cluster.preempt(cluster.members(1, make_pod("x").req(cpu=4).priority(HIGH)), 1)
    assert {"batch-1", "batch-2"} <= set(cluster.executor.victims)


def test_pods_protected_by_a_budget_leave_last() -> None:
    cluster = Cluster(2)
    cluster.budgets.set(budget("guarded", 0, {"app": "guarded"}))
    for i in range(2):
        cluster.place(low(f"guarded-{i}").label("app", "guarded"), "n0")
        cluster.place(low(f"other-{i}", priority=50), "n1")
    cluster.set_gang("train", 2)
    cluster.preempt(cluster.members(2), 2)
    assert sorted(cluster.executor.victims) == ["other-0", "other-1"]


def test_members_with_anti_affinity_evict_for_each_other_node() -> None:
    cluster = Cluster(3)
    for i in range(3):
        cluster.place(low(f"low-{i}", cpu=3, priority=i), f"n{i}")
    cluster.set_gang("train", 2)
    apart = (
        make_pod("x").req(cpu=2).priority(HIGH).pod_anti_affinity("kubernetes.io/hostname", {POD_GROUP_LABEL: "train"})
    )
    answer = cluster.preempt(cluster.members(2, apart), 2)
    assert sorted(cluster.executor.victims) == ["low-0", "low-1"]
    assert sorted(answer.nominations.values()) == ["n0", "n1"]


def test_a_victim_that_keeps_members_out_of_its_zone_leaves() -> None:
    cluster = Cluster(2, cpu=8)
    hostile = low("hostile").pod_anti_affinity("zone", {POD_GROUP_LABEL: "train"})
    cluster.place(hostile, "n0")
    cluster.place(low("high", cpu=8, priority=HIGH), "n1")
    cluster.place(low("low", cpu=1), "n0")
    cluster.set_gang("train", 2)
    cluster.preempt(cluster.members(2), 2)
    assert cluster.executor.victims == ("hostile",)


def test_when_no_more_checks_are_made_the_units_that_are_left_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MOST_CHECKS", 0)
    cluster = Cluster(2)
    for i in range(8):
        cluster.place(low(f"low-{i}", cpu=1, priority=i), f"n{i // 4}")
    cluster.set_gang("train", 2)
    answer = cluster.preempt(cluster.members(2), 2)
    assert len(answer.nominations) == 2
    assert len(cluster.executor.victims) >= 4


# --- members above the minimum ---


@LANES
def test_surplus_preempts_together_for_as_many_as_there_can_be_room(has_lane: bool) -> None:
    cluster = Cluster(4, has_lane=has_lane)
    for i in range(8):
        cluster.place(low(f"p-{i}", priority=HIGH if i > 4 else i), f"n{i % 4}")
    cluster.set_gang("train", 2)
    answer = cluster.preempt(cluster.members(6), 1, wanted=6)
    assert len(answer.nominations) == 5
    assert sorted(cluster.executor.victims) == [f"p-{i}" for i in range(5)]


def test_surplus_for_which_nobody_need_be_spared_evicts_for_all_of_it() -> None:
    cluster = Cluster(4)
    for i in range(8):
        cluster.place(low(f"low-{i}", priority=i), f"n{i % 4}")
    cluster.set_gang("train", 2)
    answer = cluster.preempt(cluster.members(3), 1, wanted=3)
    assert len(answer.nominations) == 3
    assert sorted(cluster.executor.victims) == ["low-0", "low-1", "low-2"]


def test_surplus_of_different_sizes_gets_what_fits() -> None:
    cluster = Cluster(2)
    for i in range(2):
        cluster.place(low(f"low-{i}", cpu=4), f"n{i}")
    cluster.set_gang("train", 2)
    huge, small = make_pod("x").req(cpu=5).priority(HIGH), make_pod("x").req(cpu=3).priority(HIGH)
    members = [*cluster.members(2, huge), *cluster.members(4, small)[2:]]
    answer = cluster.preempt(members, 1, wanted=4)
    assert sorted(answer.nominations) == ["uid-train-2", "uid-train-3"]


def test_surplus_that_fits_nowhere_evicts_nobody() -> None:
    cluster = Cluster(2)
    cluster.place(low("low"), "n0")
    cluster.set_gang("train", 2)
    members = cluster.members(3, make_pod("x").req(cpu=5).priority(HIGH))
    answer = cluster.preempt(members, 1, wanted=3)
    assert not answer.nominations
    assert not cluster.executor.victims


# --- any cluster --------------------------------------------------------------------------------------------------

NODES, CPU = 5, 6


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32), has_lane=st.booleans())
def test_whichever_pods_are_evicted_the_rules_hold(seed: int, has_lane: bool) -> None:
    rng = random.Random(seed)
    cluster = Cluster(NODES, CPU, has_lane=has_lane)
    cluster.budgets.set(budget("guarded", 1, {"app": "guarded"}))
    least = [rng.randint(1, 4) for _ in range(3)]
    for number, minimum in enumerate(least, 1):
        cluster.set_gang(f"g{number}", minimum)
    for node in range(NODES):
        room = CPU
        while room > 0 and rng.random() < 0.9:
            cpu = rng.randint(1, min(room, 3))
            room -= cpu
            number = rng.choice((0, 0, 0, 1, 2, 3))
            builder = low(f"p{node}-{room}", cpu, rng.randint(0, 4), f"g{number}" if number else "")
            cluster.place(builder.label("app", "guarded") if rng.random() < 0.2 else builder, f"n{node}")
    count, cpu, priority = rng.randint(1, 5), rng.randint(1, 5), rng.randint(2, 5)
    cluster.set_gang("train", count)
    members = cluster.members(count, make_pod("x").req(cpu=cpu).priority(priority))
    trial = cluster.planner.plan(members, count)
    fits = trial.reaches(count)
    trial.placed.undo()
    if fits:
        return
    pods = {pod.pod.metadata.name: pod for node in cluster.cache.table for pod in node.pods.values()}
    answer = cluster.preempt(members, count)
    victims = set(cluster.executor.victims)
    # 1. Nobody of equal or higher priority.
    assert all(pods[name].priority < priority for name in victims)
    # 2. No gang below its minimum.
    for number, minimum in enumerate(least, 1):
        mine = {
            name for name, pod in pods.items() if (pod.pod.metadata.labels or {}).get(POD_GROUP_LABEL) == f"g{number}"
        }
        if mine & victims:
            assert not mine - victims or len(mine - victims) >= minimum
    # 3. Nobody but for the whole gang, which then fits where it is nominated, and needs each of the singles.
    names = [f"n{node}" for node in range(NODES)]
    free = {name: CPU - sum(map(_cpu, _on(cluster, name, victims))) for name in names}
    if not answer.nominations:
        assert not victims
        return
    event(f"{min(len(victims), 4)} victims")
    assert len(answer.nominations) == count
    for name in answer.nominations.values():
        free[name] -= cpu
    assert all(left >= 0 for left in free.values())
    for name in victims:
        pod = pods[name]
        if not (pod.pod.metadata.labels or {}).get(POD_GROUP_LABEL):
            assert free[pod.pod.spec.node_name] < _cpu(pod), f"{name} was evicted for nothing"


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32), has_lane=st.booleans())
def test_of_the_surplus_as_many_get_room_as_can(seed: int, has_lane: bool) -> None:
    rng = random.Random(seed)
    cluster = Cluster(NODES, CPU, has_lane=has_lane)
    for node in range(NODES):
        room = CPU
        while room > 0 and rng.random() < 0.95:
            cpu = rng.randint(1, min(room, 3))
            room -= cpu
            cluster.place(low(f"p{node}-{room}", cpu, rng.randint(0, 4)), f"n{node}")
    wanted, cpu, priority = rng.randint(1, 8), rng.randint(1, CPU), rng.randint(2, 5)
    cluster.set_gang("train", 1)
    members = cluster.members(wanted, make_pod("x").req(cpu=cpu).priority(priority))
    trial = cluster.planner.plan(members, 1)
    fits = trial.reaches(1)
    trial.placed.undo()
    if fits:
        return
    pods = {pod.pod.metadata.name: pod for node in cluster.cache.table for pod in node.pods.values()}
    answer = cluster.preempt(members, 1, wanted=wanted)
    victims = set(cluster.executor.victims)
    staying = {name for name, pod in pods.items() if pod.priority >= priority}
    names = [f"n{node}" for node in range(NODES)]
    rooms = [CPU - sum(_cpu(pod) for pod in _on(cluster, name, set(pods) - staying)) for name in names]
    assert len(answer.nominations) == min(wanted, sum(room // cpu for room in rooms))
    event(f"{len(answer.nominations)} of {wanted}")
    assert not victims & staying
    free = {name: CPU - sum(map(_cpu, _on(cluster, name, victims))) for name in names}
    for name in answer.nominations.values():
        free[name] -= cpu
    assert all(left >= 0 for left in free.values())
    assert all(free[pods[name].pod.spec.node_name] < _cpu(pods[name]) for name in victims), (
        "one was evicted for nothing"
    )


def _cpu(pod: PodInfo) -> int:
    return pod.resources.total.cpu_milli // 1000


def _on(cluster: Cluster, name: str, without: set[str]) -> list[PodInfo]:
    node = cluster.cache.table.get(name)
    assert node is not None
    return [pod for pod in node.pods.values() if pod.pod.metadata.name not in without]


def test_a_gang_that_fits_without_evictions_after_all_is_tried_again_soon_since_no_event_will_come() -> None:
    cluster = Cluster(2)
    ending = low("ending", cpu=4)
    cluster.place(ending, "n0")
    cluster.place(low("high", cpu=3, priority=HIGH), "n1")
    cluster.place(low("low", cpu=1), "n1")
    cluster.set_gang("train", 2)
    members = cluster.members(2)
    plan = cluster.planner.plan(members, 2)
    cluster.cache.remove_pod(ending.obj().metadata.uid)  # after the plan
    face = face_of(key_of("train"), HIGH, members[0].pod_info, sums_resizes_apart=False)
    answer = cluster.preemption.look(cluster.tracked(), face, members, plan, 2)
    assert not cluster.executor.victims
    assert set(answer.nominations.values()) == {"n0"}
    assert cluster.retried == [(face.key, whole.RETRY_S)]
