"""Pod groups in kube-scheduler 1.37's metrics of its queue: each is one entity, and its pods wait where it does.

A real kube-scheduler 1.37.2 showed the same numbers for the same objects.
"""

from __future__ import annotations

import re

import pytest

from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.config.load import in_release
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.config.types import SchedulerConfig
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.scenarios.gangs import BY_LABEL, by_field, group, members
from tests.support.moving_families import moved
from tests.support.world import World, in_virtual_time

CONFIG = by_field(RELEASE_1_37)


def queue(world: World) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of pods by queue, and those of entities by type and queue, without zeros."""
    text = world.metrics.exposition().decode()
    pods = re.findall(r'^scheduler_pending_pods\{queue="(\w+)"\} (\d+)', text, re.MULTILINE)
    entities = re.findall(r'^scheduler_queued_entities\{queue="(\w+)",type="(\w+)"\} (\d+)', text, re.MULTILINE)
    return (
        {name: int(number) for name, number in pods if int(number)},
        {f"{kind} {name}": int(number) for name, kind, number in entities if int(number)},
    )


def of(name: str, count: int, cpu: int = 2) -> list[PodBuilder]:
    return [make_pod(f"{name}-{i}").scheduling_group(name).req(cpu=cpu) for i in range(count)]


@in_virtual_time
async def test_groups_are_entities_where_they_wait() -> None:
    async with World(config=CONFIG, expect_conditions=False) as world:
        world.add_node("n1")
        before = world.metrics.exposition().decode()
        for pod in of("nameless", 2):
            world.add_pod(pod)
        await world.sleep(5)
        assert queue(world) == ({"incomplete": 2}, {})
        world.cluster.create_object(group("nameless", 3))
        await world.sleep(5)
        assert queue(world) == ({"gated": 2}, {"podgroup gated": 1})
        world.add_pod(make_pod("nameless-gated").scheduling_group("nameless").scheduling_gate("wait"))
        world.add_pod(make_pod("alone").scheduling_gate("wait"))
        await world.sleep(5)
        assert queue(world) == ({"gated": 4}, {"podgroup gated": 1, "pod gated": 1})
        world.cluster.create_object(group("large", 4))
        for pod in of("large", 4):
            world.add_pod(pod)
        world.add_pod(make_pod("huge").req(cpu=100))
        await world.until(lambda: queue(world)[0].get("backoff") == 4)
        assert queue(world) == (
            {"gated": 4, "backoff": 4, "unschedulable": 1},
            {"podgroup gated": 1, "podgroup backoff": 1, "pod gated": 1, "pod unschedulable": 1},
        )
        families = moved(before, world.metrics.exposition().decode())
        assert families >= {"scheduler_queued_entities", "scheduler_queue_incoming_entities_total"}


@in_virtual_time
async def test_a_group_with_gated_pods_only_is_one_gated_entity_and_incomplete_again_without_its_object() -> None:
    async with World(config=CONFIG) as world:
        world.cluster.create_object(group("train", 1))
        for i in range(3):
            world.add_pod(make_pod(f"train-{i}").scheduling_group("train").scheduling_gate("wait"))
        await world.sleep(5)
        assert queue(world) == ({"gated": 3}, {"podgroup gated": 1})
        world.cluster.delete_object(pod_groups(world.scheduler.release), "default/train")
        await world.sleep(5)
        assert queue(world) == ({"incomplete": 3}, {})


@in_virtual_time
async def test_incoming_groups_are_counted_once_with_all_their_pods() -> None:
    async with World(config=CONFIG) as world:
        world.add_node("n1")
        world.cluster.create_object(group("train", 2))
        for pod in (*of("train", 2, cpu=1), make_pod("alone").req(cpu=1)):
            world.add_pod(pod)
        await world.until(world.all_bound)
        world.metrics.exposition()
        entities = world.metrics.queue_incoming_entities_total
        came = {labels: child.value for labels, child in entities.items() if child.value}
        assert sum(number for (_, _, kind), number in came.items() if kind == "podgroup") == 1
        assert sum(number for (_, _, kind), number in came.items() if kind == "pod") == 1
        assert sum(child.value for _, child in world.metrics.queue_incoming_pods_total.items()) == 3


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (BY_LABEL, ({"gated": 2}, {})),
        (in_release(BY_LABEL, RELEASE_1_37, "test"), ({"incomplete": 2}, {})),
    ],
    ids=["1.36", "1.37"],
)
def test_pods_without_their_podgroup_of_coscheduling_are_incomplete_where_the_release_has_that_word(
    config: SchedulerConfig, expected: tuple[dict[str, int], dict[str, int]]
) -> None:
    @in_virtual_time
    async def play() -> None:
        async with World(config=config) as world:
            for pod in members("train", 2):
                world.add_pod(pod)
            await world.sleep(10)
            assert queue(world) == expected

    play()
