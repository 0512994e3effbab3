"""PodGroups of 1.36: kube-scheduler's way, in which each member preempts by itself."""

from __future__ import annotations

from kscheduler.api.objects import PodCondition
from kscheduler.api.pod_groups import PodGroup, PodGroupConstraints, TopologyConstraint
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36
from kscheduler.testing.wrappers import PodBuilder, make_node
from tests.scenarios.evicted import bound, fill, left, low
from tests.scenarios.gangs import GATES, by_field, group
from tests.support.world import World, in_virtual_time

HIGH = 1000
CONFIG = by_field(RELEASE_1_36)


def members(name: str, count: int, cpu: int = 2, priority: int = HIGH) -> list[PodBuilder]:
    return [low(f"{name}-{i}", cpu, priority).scheduling_group(name) for i in range(count)]


def condition_of(world: World, name: str) -> str:
    found: PodGroup = world.cluster.store(pod_groups(world.scheduler.release)).objects[f"default/{name}"]
    return next((condition.message for condition in found.status.conditions or ()), "")


@in_virtual_time
async def test_a_group_waits_for_its_last_pod_and_is_bound() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(2)
        world.cluster.create_object(group("train", 4))
        *first, last = members("train", 4)
        for pod in first:
            world.add_pod(pod)
        await world.sleep(30)
        assert not bound(world, "train")
        world.add_pod(last)
        await world.until(world.all_bound)


@in_virtual_time
async def test_members_make_room_and_the_group_is_bound_once_the_victims_are_gone() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(2)
        await fill(world, *(low(f"low-{i}") for i in range(4)))
        world.cluster.create_object(group("train", 2, priority=HIGH))
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.until(world.all_bound)
        assert len(left(world, "low")) == 2
        attempts = world.metrics.podgroup_schedule_attempts_total
        assert attempts.labels("waiting_on_preemption", "default-scheduler").value == 1
        assert attempts.labels("scheduled", "default-scheduler").value == 1
        assert world.metrics.preemption_victims.sum == 2


@in_virtual_time
async def test_members_evict_even_if_the_group_does_not_fit() -> None:
    async with World(config=CONFIG) as world:
        world.add_nodes(1)
        await fill(world, low("low-0"), low("high", priority=HIGH))
        world.cluster.create_object(group("train", 2, priority=HIGH))
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.sleep(60)
        assert not bound(world, "train")
        assert not left(world, "low"), "as with kube-scheduler 1.36"


TOGETHER = default_config(RELEASE_1_36.with_gates({**GATES, "WorkloadAwarePreemption": True}))
PLACED = default_config(RELEASE_1_36.with_gates({**GATES, "TopologyAwareWorkloadScheduling": True}))
RACK = "example.com/rack"


@in_virtual_time
async def test_a_group_that_does_not_fit_evicts_nobody_if_groups_preempt_together() -> None:
    async with World(config=TOGETHER) as world:
        world.add_nodes(1)
        await fill(world, low("low-0"), low("high", priority=HIGH))
        world.cluster.create_object(group("train", 2, priority=HIGH))
        for pod in members("train", 2):
            world.add_pod(pod)
        await world.sleep(60)
        assert not bound(world, "train")
        assert left(world, "low") == ["low-0"]
        in_vain = "pod group is unschedulable, pod group is unschedulable"
        assert condition_of(world, "train") == in_vain
        condition = world.condition("train-0")
        assert condition is not None
        assert "preemption: not eligible due to workload aware preemption enabled" in (condition.message or "")


@in_virtual_time
async def test_a_group_evicts_for_all_its_pods_together_and_is_bound() -> None:
    async with World(config=TOGETHER) as world:
        world.run_kubelets()
        world.add_nodes(2)
        await fill(world, *(low(f"low-{i}", priority=i).grace_period(20) for i in range(4)))
        world.cluster.create_object(group("train", 3, priority=HIGH))
        for pod in members("train", 3):
            world.add_pod(pod)
        await world.until(lambda: len(left(world, "low")) == 1)
        assert left(world, "low") == ["low-3"]
        await world.until(lambda: len(bound(world, "train")) == 3)
        assert left(world, "low") == ["low-3"]
        assert world.metrics.preemption_victims.sum == 3
        assert world.metrics.workload_preemption_victims.labels().count == 0, "a metric of 1.37"


@in_virtual_time
async def test_a_group_with_a_constraint_is_placed_in_one_domain_and_preempts_nobody() -> None:
    async with World(config=PLACED) as world:
        for rack, nodes in (("r1", 1), ("r2", 2), ("r3", 3)):
            for index in range(nodes):
                node = make_node(f"{rack}-{index}").capacity(cpu="4", memory="16Gi", pods=110)
                world.add_node(node.label(RACK, rack))
        constraints = PodGroupConstraints([TopologyConstraint(RACK)])
        world.cluster.create_object(group("train", 3, scheduling_constraints=constraints))
        for pod in members("train", 3, priority=0):
            world.add_pod(pod)
        await world.until(world.all_bound)
        assert {node.split("-")[0] for node in bound(world, "train").values()} == {"r2"}, "the fuller one of two"
        world.cluster.create_object(group("large", 7, priority=HIGH, scheduling_constraints=constraints))
        for pod in members("large", 7):
            world.add_pod(pod)
        await world.until(lambda: bool(condition_of(world, "large")))
        none = "0/3 placements are available, first placement status: pod group is unschedulable"
        assert condition_of(world, "large") == none
        assert len(bound(world, "train")) == 3
        limited = "not eligible due to placement-based pod group scheduling limitation"
        assert any(limited in ((world.condition(f"large-{i}") or PodCondition()).message or "") for i in range(7))
        world.add_node(make_node("r3-3").capacity(cpu="4", memory="16Gi", pods=110).label(RACK, "r3"))
        await world.until(world.all_bound)
        assert {node.split("-")[0] for node in bound(world, "large").values()} == {"r3"}
