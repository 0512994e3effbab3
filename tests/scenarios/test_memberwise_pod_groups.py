"""PodGroups of 1.36: kube-scheduler's way, in which each member preempts by itself."""

from __future__ import annotations

from kscheduler.config.releases import RELEASE_1_36
from kscheduler.testing.wrappers import PodBuilder
from tests.scenarios.evicted import bound, fill, left, low
from tests.scenarios.gangs import by_field, group
from tests.support.world import World, in_virtual_time

HIGH = 1000
CONFIG = by_field(RELEASE_1_36)


def members(name: str, count: int, cpu: int = 2, priority: int = HIGH) -> list[PodBuilder]:
    return [low(f"{name}-{i}", cpu, priority).scheduling_group(name) for i in range(count)]


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
