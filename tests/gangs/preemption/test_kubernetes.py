"""PodGroups preempt as kube-scheduler 1.37 does: the victims follow from its rules, restated here for CPU alone."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import event, given, settings
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, PodResourceClaim, TopologySpreadConstraint
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.framework.status import Code
from kscheduler.gangs.gang import Disruption
from kscheduler.gangs.preemption.kubernetes import InVain, KubernetesPreemption, PreemptionAnswer
from kscheduler.gangs.stand_in import face_of
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod
from tests.devices.building import devices, make_class, make_slice
from tests.framework.plugins.defaultpreemption.fakes import budget
from tests.framework.plugins.dynamicresources.bench import claim
from tests.gangs.builders import key_of
from tests.gangs.preemption.bench import HIGH, Cluster, low
from tests.support.checks import check_cache
from tests.support.spreads import spread

NODES, CPU = 4, 6


def preempt(cluster: Cluster, members: list[QueuedPodInfo], missing: int, priority: int) -> PreemptionAnswer:
    """Let the group preempt; nothing may have changed afterwards."""
    preemption = KubernetesPreemption(
        cluster.cache, cluster.registry, cluster.planner, cluster.handle, cluster.executor
    )
    before = {node.name: (list(node.pods), node.requested) for node in cluster.cache.table}
    face = face_of(key_of("train"), priority, members[0].pod_info, sums_resizes_apart=False)
    answer = preemption.preempt(face, priority, members, missing)
    assert {node.name: (list(node.pods), node.requested) for node in cluster.cache.table} == before
    check_cache(cluster.cache)
    return answer


def test_all_members_are_planned_and_not_only_the_minimum() -> None:
    cluster = Cluster(2)
    for i in range(4):
        cluster.place(low(f"low-{i}"), f"n{i % 2}")
    cluster.set_gang("train", 1, priority=HIGH)
    answer = preempt(cluster, cluster.members(3), 1, HIGH)
    assert not isinstance(answer, InVain)
    status, nominations = answer
    assert status.reasons == ("pod group preemption: found a placement for podgroup, preempting 3 victims",)
    assert len(nominations) == 3


def test_only_as_many_pods_are_evicted_as_members_with_claims_need() -> None:
    cluster = Cluster(1)
    known = cluster.handle.devices
    known.set_class(make_class())
    known.set_slice(make_slice("s0", devices("g0", "g1"), node_name="n0"))
    for name in ("own", "shared"):
        known.set_claim(claim(name))
    for i in range(2):
        cluster.place(low(f"low-{i}", priority=i + 1), "n0")
    cluster.set_gang("train", 2, priority=HIGH)
    members = cluster.members(2, make_pod("x").req(cpu=1).priority(HIGH))
    for queued, names in zip(members, (["own", "shared"], ["shared"]), strict=True):
        spec = replace(queued.pod_info.pod.spec, resource_claims=[PodResourceClaim(each, each) for each in names])
        queued.pod_info = PodInfo(replace(queued.pod_info.pod, spec=spec))
    answer = preempt(cluster, members, 2, HIGH)
    assert not isinstance(answer, InVain)
    assert cluster.executor.victims == ("low-0",)
    assert not known.in_flight


def test_an_earlier_preemption_is_waited_for_with_the_nominations_of_the_pods_statuses() -> None:
    cluster = Cluster(1)
    ending = make_pod("old").req(cpu=4).priority(1).terminating()
    cluster.place(ending.condition("DisruptionTarget", "True", "PreemptionByScheduler"), "n0")
    cluster.set_gang("train", 1, priority=HIGH)
    builder = make_pod("x").req(cpu=2).priority(HIGH)
    members = cluster.members(1, builder.nominated_node("n0")) + cluster.members(2, builder)[1:]
    answer = preempt(cluster, members, 1, HIGH)
    assert not isinstance(answer, InVain)
    status, nominations = answer
    assert (status.code, status.reasons) == (
        Code.SUCCESS,
        ("pod group preemption: ongoing preemption on nominated nodes",),
    )
    assert nominations == {"uid-train-0": "n0", "uid-train-1": ""}


def test_an_earlier_preemption_is_waited_for_before_the_statuses_show_its_nominations() -> None:
    cluster = Cluster(2)
    ending = make_pod("old").req(cpu=4).priority(1).terminating()
    cluster.place(ending.condition("DisruptionTarget", "True", "PreemptionByScheduler"), "n0")
    cluster.place(low("other", cpu=4), "n1")
    cluster.set_gang("train", 1, priority=HIGH)
    members = cluster.members(1, make_pod("x").req(cpu=2).priority(HIGH))
    cluster.nominations.nominate(members[0].pod_info, "n0")
    answer = preempt(cluster, members, 1, HIGH)
    assert not isinstance(answer, InVain)
    assert answer[1] == {"uid-train-0": "n0"}
    assert cluster.executor.victims == ()


def test_the_priority_of_its_group_counts_for_a_victim() -> None:
    cluster = Cluster(1)
    cluster.set_gang("batch", 1, priority=HIGH)
    cluster.place(low("batch-0", cpu=4, priority=1, of="batch"), "n0")
    cluster.set_gang("train", 1, priority=HIGH)
    answer = preempt(cluster, cluster.members(1), 1, HIGH)
    assert not isinstance(answer, InVain)
    assert answer[0].message == "pod group preemption: No preemption victims found for incoming preemptor"


@pytest.mark.parametrize("has_lane", [True, False])
def test_a_member_is_checked_beside_those_planned_before_it_only(has_lane: bool) -> None:
    """Beside the second member, which is in the other zone, the first would fit in spite of the pod that is back."""
    cluster = Cluster(2, has_lane=has_lane)
    cluster.place(low("alike", cpu=1).label("app", "x"), "n0")
    cluster.set_gang("train", 2, priority=HIGH)
    evenly = TopologySpreadConstraint(1, "zone", "DoNotSchedule", LabelSelector(match_labels={"app": "x"}))
    members = [
        QueuedPodInfo(PodInfo(spread(queued.pod_info.pod, evenly)), 0.0)
        for queued in cluster.members(2, make_pod("x").label("app", "x").req(cpu=2).priority(HIGH))
    ]
    answer = preempt(cluster, members, 2, HIGH)
    assert not isinstance(answer, InVain)
    assert answer[1] == {"uid-train-0": "n0", "uid-train-1": "n1"}
    assert cluster.executor.victims == ("alike",)


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32), has_lane=st.booleans())
def test_the_victims_are_those_that_the_rules_name(seed: int, has_lane: bool) -> None:
    rng = random.Random(seed)
    cluster = Cluster(NODES, CPU, has_lane=has_lane)
    allowed = rng.randint(0, 2)
    cluster.budgets.set(budget("guarded", allowed, {"app": "guarded"}))
    groups = {f"g{number}": rng.randint(0, 4) for number in range(3)}
    whole = {name for name in groups if rng.random() < 0.5}
    for name, priority in groups.items():
        mode = Disruption.ALL if name in whole else Disruption.SINGLE
        cluster.set_gang(name, rng.randint(1, 3), priority=priority, disruption=mode)
    started = 0
    for node in range(NODES):
        room = CPU
        while room > 0 and rng.random() < 0.9:
            cpu, started = rng.randint(1, min(room, 3)), started + 1
            room -= cpu
            group = rng.choice(("", "", "", *groups))
            own = groups.get(group, rng.randint(0, 4))
            # Each started at another time: equally important pods come in any order in kube-scheduler.
            builder = low(f"p{node}-{room}", cpu, own, group).started(f"2026-01-01T00:00:{started:02}Z")
            cluster.place(builder.label("app", "guarded") if rng.random() < 0.2 else builder, f"n{node}")
    count, cpu, priority = rng.randint(1, 4), rng.randint(1, 5), rng.randint(1, 5)
    cluster.set_gang("train", count, priority=priority)
    members = cluster.members(count, make_pod("x").req(cpu=cpu).priority(priority))
    answer = preempt(cluster, members, count, priority)
    if isinstance(answer, InVain) or answer[0].code is not Code.SUCCESS:
        assert not cluster.executor.victims
        return
    pods = [pod for node in cluster.cache.table for pod in node.pods.values()]
    expected = victims_by_the_rules(pods, groups, whole, priority, allowed, list(answer[1].values()), cpu)
    assert list(cluster.executor.victims) == expected
    event(f"{min(len(expected), 4)} victims")


def victims_by_the_rules(
    pods: list[PodInfo],
    groups: dict[str, int],
    whole: set[str],
    below: int,
    allowed: int,
    nodes: list[str],
    cpu: int,
) -> list[str]:
    """Return the names of the victims, in order. `nodes`: of the planned members, which ask for `cpu` each."""
    # 1. Units of lower priority, the most important first.
    units: dict[str, list[PodInfo]] = {}
    for pod in pods:
        group = group_of(pod)
        if groups.get(group, pod.priority) < below:
            units.setdefault(group if group in whole else pod.uid, []).append(pod)
    order = sorted(
        units.values(),
        key=lambda unit: (
            -groups.get(group_of(unit[0]), unit[0].priority),
            not group_of(unit[0]),
            -len(unit),
            min(pod.pod.status.start_time or "" for pod in unit),
        ),
    )
    # 2. Those that violate the budget come back first.
    violating = []
    for unit in order:
        guarded = [pod for pod in unit if (pod.pod.metadata.labels or {}).get("app")]
        allowed -= len(guarded)
        if guarded and allowed < 0:
            violating.append(unit)
    # 3. Each comes back if there is room.
    away = {pod.uid for unit in order for pod in unit}
    free = dict.fromkeys((f"n{node}" for node in range(NODES)), CPU)
    for pod in pods:
        free[pod.pod.spec.node_name] -= 0 if pod.uid in away else cpus(pod)
    for name in nodes:
        free[name] -= cpu
    victims = []
    for unit in [*violating, *(unit for unit in order if unit not in violating)]:
        for pod in unit:
            free[pod.pod.spec.node_name] -= cpus(pod)
        if any(free[pod.pod.spec.node_name] < 0 and pod.pod.spec.node_name in nodes for pod in unit):
            victims.append(unit)
            for pod in unit:
                free[pod.pod.spec.node_name] += cpus(pod)
    return [pod.pod.metadata.name for unit in order if unit in victims for pod in unit]


def group_of(pod: PodInfo) -> str:
    return (pod.pod.metadata.labels or {}).get(POD_GROUP_LABEL, "")


def cpus(pod: PodInfo) -> int:
    return pod.resources.total.cpu_milli // 1000
