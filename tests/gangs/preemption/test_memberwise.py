"""Groups of 1.36 that preempt as a whole: who is evicted; tests/parity compares with a real kube-scheduler."""

from __future__ import annotations

import random
from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import event, given, settings

from kscheduler.framework.status import Code, Status
from kscheduler.gangs.gang import Disruption
from kscheduler.gangs.memberwise_planner import MemberwisePlanner
from kscheduler.gangs.preemption import memberwise
from kscheduler.gangs.preemption.memberwise import MemberwisePreemption
from kscheduler.gangs.stand_in import face_of
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.testing.wrappers import make_pod
from tests.framework.plugins.defaultpreemption.fakes import budget
from tests.gangs.builders import key_of
from tests.gangs.preemption.bench import HIGH, Cluster, low
from tests.support.checks import check_cache


def preempt(cluster: Cluster, members: list[QueuedPodInfo], missing: int, priority: int = HIGH) -> Status:
    """Let the group preempt; nothing may have changed afterwards."""
    lane = cluster.side.lane if cluster.has_lane else None
    planner = MemberwisePlanner(cluster.cache, cluster.side.profiles, lane, nominations=cluster.nominations)
    preemption = MemberwisePreemption(cluster.cache, cluster.registry, cluster.handle, cluster.executor)
    before = {node.name: (list(node.pods), node.requested) for node in cluster.cache.table}
    face = face_of(key_of("train"), priority, members[0].pod_info, sums_resizes_apart=False)
    plan = partial(planner.plan_each, members, on_trial=True)
    status = preemption.preempt(face, priority, members, missing, plan)
    assert {node.name: (list(node.pods), node.requested) for node in cluster.cache.table} == before
    check_cache(cluster.cache)
    return status


def filled(*pods: tuple[str, int]) -> Cluster:
    """Return two nodes of 4 CPUs, filled in turn with pods of 2 CPUs: name, priority."""
    cluster = Cluster(2)
    for at, (name, priority) in enumerate(pods):
        cluster.place(low(name, priority=priority), f"n{at % 2}")
    cluster.set_gang("train", 2, priority=HIGH)
    return cluster


def test_the_least_important_pods_beside_which_the_group_does_not_fit_are_evicted() -> None:
    cluster = filled(("a", 1), ("b", 2), ("c", 3), ("d", 4))
    assert preempt(cluster, cluster.members(2), 2).code is Code.SUCCESS
    assert cluster.executor.victims == ("b", "a")


def test_nobody_is_evicted_for_a_group_that_would_not_fit() -> None:
    cluster = filled(("a", 1), ("b", HIGH), ("c", HIGH), ("d", HIGH))
    status = preempt(cluster, cluster.members(2), 2)
    assert (status.code, status.message) == (Code.UNSCHEDULABLE, "pod group is unschedulable")
    assert cluster.executor.victims == ()


def test_a_group_without_anybody_below_it_says_so() -> None:
    cluster = filled(("a", HIGH), ("b", HIGH), ("c", HIGH), ("d", HIGH))
    status = preempt(cluster, cluster.members(2), 2)
    assert status.message == "No preemption victims found for incoming preemptor"


def test_one_member_that_does_not_preempt_keeps_the_group_from_it() -> None:
    cluster = filled(("a", 1), ("b", 2))
    never = make_pod("x").req(cpu=2).priority(HIGH).preemption_policy("Never")
    members = [*cluster.members(1), *cluster.members(2, never)[1:]]
    assert preempt(cluster, members, 2).message == "not eligible due to preemptionPolicy=Never."


def test_a_group_that_is_disrupted_together_counts_with_its_priority_and_goes_whole() -> None:
    cluster = Cluster(2)
    cluster.set_gang("batch", 1, priority=5, disruption=Disruption.ALL)
    for at in range(2):
        cluster.place(low(f"batch-{at}", priority=HIGH, of="batch"), f"n{at}")
        cluster.place(low(f"single-{at}", priority=6), f"n{at}")
    cluster.set_gang("train", 1, priority=HIGH)
    assert preempt(cluster, cluster.members(1), 1).code is Code.SUCCESS
    assert cluster.executor.victims == ("batch-0", "batch-1")


def test_pods_of_other_groups_count_with_their_own_priority() -> None:
    cluster = filled(("a", 5), ("b", 5), ("c", 5))
    cluster.set_gang("batch", 1, priority=HIGH)
    cluster.place(low("batch-0", priority=1, of="batch"), "n1")
    assert preempt(cluster, cluster.members(1), 1).code is Code.SUCCESS
    assert cluster.executor.victims == ("batch-0",)


def test_behind_the_first_pod_that_violates_a_budget_no_other_of_a_group_uses_it_up() -> None:
    """So one disruption is left for the single pod, which then does not come back before more important ones."""
    cluster = Cluster(2)
    for name, allowed in (("web", 0), ("db", 1)):
        cluster.budgets.set(budget(name, allowed, {name: "yes"}))
    cluster.set_gang("batch", 2, priority=5, disruption=Disruption.ALL)
    cluster.place(low("batch-0", of="batch").label("web", "yes"), "n0")
    cluster.place(low("batch-1", of="batch").label("db", "yes"), "n0")
    cluster.place(low("single", priority=3).label("db", "yes"), "n1")
    cluster.place(low("other", priority=4), "n1")
    cluster.set_gang("train", 1, priority=HIGH)
    assert preempt(cluster, cluster.members(1), 1).code is Code.SUCCESS
    assert cluster.executor.victims == ("single",)


@pytest.mark.parametrize(("most", "victims"), [(4, ("b", "a")), (2, ("c", "b", "a"))])
def test_members_are_planned_on_trial_so_often_and_no_more(
    most: int, victims: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two most important pods would come back, one after the other."""
    monkeypatch.setattr(memberwise, "MOST_TRIED", most)
    cluster = filled(("a", 1), ("b", 2), ("c", 3), ("d", 4))
    assert preempt(cluster, cluster.members(2), 2).code is Code.SUCCESS
    assert cluster.executor.victims == victims


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32), has_lane=st.booleans())
def test_no_victim_could_have_stayed_beside_the_others_that_stay(seed: int, has_lane: bool) -> None:
    rng = random.Random(seed)
    cluster = Cluster(3, 6, has_lane=has_lane)
    started = 0
    for node in range(3):
        room = 6
        while room > 0 and rng.random() < 0.9:
            cpu, started = rng.randint(1, min(room, 3)), started + 1
            room -= cpu
            pod = low(f"p{node}-{room}", cpu, rng.randint(0, 4)).started(f"2026-01-01T00:00:{started:02}Z")
            cluster.place(pod, f"n{node}")
    count, cpu, priority = rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 5)
    cluster.set_gang("train", count, priority=priority)
    status = preempt(cluster, cluster.members(count, make_pod("x").req(cpu=cpu).priority(priority)), count, priority)
    pods = [pod for node in cluster.cache.table for pod in node.pods.values()]
    evicted = set(cluster.executor.victims)

    def room_without(names: set[str]) -> int:
        free = dict.fromkeys(("n0", "n1", "n2"), 6000)
        for pod in pods:
            if pod.pod.metadata.name not in names:
                free[pod.pod.spec.node_name] -= pod.resources.total.cpu_milli
        return sum(left // (1000 * cpu) for left in free.values())

    below = {pod.pod.metadata.name for pod in pods if pod.priority < priority}
    assert evicted <= below
    if status.code is not Code.SUCCESS:
        assert not below or room_without(below) < count
        assert not evicted
        return
    assert room_without(evicted) >= count
    assert all(room_without(evicted - {name}) < count for name in evicted)
    event(f"{min(len(evicted), 4)} victims")
