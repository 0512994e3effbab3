"""A gang that has failed for long gets its room under a steady stream of small pods, and others hardly notice."""

from __future__ import annotations

from collections import deque
from functools import partial

import pytest

from kscheduler.api.pod_groups import COSCHEDULING_GROUP, POD_GROUP_LABEL
from kscheduler.config.load import parse_config
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text, gangs_text
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.reservations import Reservation, Reservations
from kscheduler.scheduler import Options
from kscheduler.testing.wrappers import make_node, make_pod
from tests.scenarios.gangs import explainer_of, gang, members, near, reserving
from tests.scenarios.quotas import CONFIG as QUOTAS
from tests.scenarios.quotas import quota
from tests.support.moving_families import moved
from tests.support.world import World, in_virtual_time

AFTER_S = 20


class Stream:
    """Small pods that come one each second; the oldest one that has a node ends before the next one comes."""

    def __init__(self, world: World, at_once: int, priority: int = 0) -> None:
        self._world = world
        self._priority = priority
        self._number = 0
        self.ended = 0
        self._alive: deque[str] = deque()
        for _ in range(at_once):
            self._come()

    def _come(self) -> None:
        self._number += 1
        self._world.add_pod(make_pod(f"small-{self._number}").req(cpu=1).priority(self._priority))
        self._alive.append(f"small-{self._number}")

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            await self._world.sleep(1.0)
            oldest = next((name for name in self._alive if self._world.node_of(name)), None)
            if oldest is not None:
                self._alive.remove(oldest)
                self._world.cluster.delete_pod(f"default/{oldest}")
                self.ended += 1
            self._come()


def placed(world: World, name: str) -> int:
    pods = world.cluster.pods.values()
    return sum(bool(pod.spec.node_name) for pod in pods if (pod.metadata.labels or {}).get(POD_GROUP_LABEL) == name)


def has_nodes(world: World, name: str) -> bool:
    return placed(world, name) == 2


def reservations_of(world: World) -> Reservations:
    parts = world.scheduler.gangs
    assert parts is not None
    assert parts.reservations is not None
    return parts.reservations


def held_by(world: World) -> Reservation | None:
    """The only reservation; None if there is none."""
    held = list(reservations_of(world).held.values())
    assert len(held) <= 1
    return held[0] if held else None


def add_gang(world: World, name: str, count: int, cpu: int = 4, priority: int = 0) -> None:
    world.cluster.create_object(gang(name, count))
    for pod in members(name, count, cpu):
        world.add_pod(pod.priority(priority))


@pytest.mark.parametrize("after_s", [0, AFTER_S])
def test_a_gang_starves_under_small_pods_unless_room_is_reserved(after_s: int) -> None:
    ended = 0

    @in_virtual_time
    async def scenario() -> None:
        nonlocal ended
        async with World(config=reserving(after_s)) as world:
            world.add_nodes(4)
            stream = Stream(world, 16)
            await stream.run(5)
            add_gang(world, "train", 2)
            await stream.run(AFTER_S + 60)
            assert placed(world, "train") == (2 if after_s else 0)
            ended = stream.ended
            for pod in list(world.cluster.pods.values()):
                if not pod.metadata.name.startswith("train"):
                    world.cluster.delete_pod(pod.key)
            await world.until(world.all_bound)

    scenario()
    assert ended >= 80, "small pods go on elsewhere"


@in_virtual_time
async def test_explain_and_metrics_show_a_reservation() -> None:
    async with World(config=reserving(AFTER_S), options=Options(explain=DecisionLogOptions())) as world:
        before = world.metrics.exposition().decode()
        explainer = explainer_of(world)
        world.add_nodes(2)
        for i in range(4):
            world.add_pod(make_pod(f"other-{i}").req(cpu=2))
        await world.until(world.all_bound)
        add_gang(world, "train", 2)
        await world.sleep(AFTER_S + 2)
        held = held_by(world)
        assert held is not None
        assert sorted(held.nodes.values()) == ["n0", "n1"]
        document = explainer.explain_gang("default/train")
        assert document is not None
        (line,) = (line for line in gangs_text(document).splitlines() if "reserved" in line)
        assert line.startswith("  room for 2 pods on n0, n1 is reserved for it since ")
        assert line.endswith(" s ago; 4 pods had to end there when the nodes were chosen")
        world.cluster.delete_pod("default/other-0")
        world.add_pod(make_pod("late").req(cpu=1))
        await world.until(lambda: world.condition("late") is not None)
        late = explainer.explain("default/late")
        assert late is not None
        assert "\nReserved for gang default/train, which has failed for " in explanation_text(late)
        assert explanation_text(late).count(": room for 2 pods on n0, n1.\n") == 1
        assert "kscheduler_gang_reserved_pods 2.0" in world.metrics.exposition().decode()
        for i in range(1, 4):
            world.cluster.delete_pod(f"default/other-{i}")
        await world.until(lambda: placed(world, "train") == 2)
        after = world.metrics.exposition().decode()
        assert 'kscheduler_gang_reservations_total{end="placed"} 1.0' in after
        assert "kscheduler_gang_reservations_total" in moved(before, after)
        world.add_node("n2")
        await world.until(world.all_bound)


@in_virtual_time
async def test_pods_of_higher_priority_take_reserved_room_and_others_what_is_left_beside_it() -> None:
    async with World(config=reserving(AFTER_S)) as world:
        world.add_nodes(2)
        for name in ("old-0", "old-1"):
            world.add_pod(make_pod(name).req(cpu=4))
        await world.until(world.all_bound)
        add_gang(world, "train", 2, cpu=3)
        await world.sleep(AFTER_S + 2)
        assert held_by(world) is not None
        free = world.node_of("old-0")
        world.cluster.delete_pod("default/old-0")
        world.add_pod(make_pod("beside").req(cpu=1))
        world.add_pod(make_pod("too-large").req(cpu=2))
        await world.until(lambda: bool(world.node_of("beside")))
        assert world.node_of("beside") == free
        await world.sleep(15)
        assert not world.node_of("too-large")
        world.add_pod(make_pod("urgent").req(cpu=3).priority(10))
        await world.until(lambda: world.node_of("urgent") == free)
        assert placed(world, "train") == 0
        world.cluster.delete_pod("default/urgent")
        await world.sleep(15)
        assert not world.node_of("too-large")
        world.cluster.delete_pod("default/old-1")
        await world.until(lambda: has_nodes(world, "train"))
        for i in range(2):
            world.cluster.delete_pod(f"default/train-{i}")
        await world.until(world.all_bound)


@in_virtual_time
async def test_room_is_released_and_others_are_tried_when_the_gang_is_deleted() -> None:
    async with World(config=reserving(AFTER_S), expect_conditions=False) as world:
        world.add_nodes(1)
        world.add_pod(make_pod("old").req(cpu=2))
        await world.until(world.all_bound)
        add_gang(world, "train", 2, cpu=2)
        await world.sleep(AFTER_S + 2)
        world.add_pod(make_pod("late").req(cpu=1))
        await world.sleep(5)
        assert not world.node_of("late"), "there is room, but it is reserved"
        for name in ("train-0", "train-1"):
            world.cluster.delete_pod(f"default/{name}")
        await world.until(lambda: bool(world.node_of("late")), within_s=12)
        assert held_by(world) is None
        assert not world.scheduler.nominations.by_pod


@in_virtual_time
async def test_one_gang_has_a_reservation_and_the_first_one_by_the_queue_takes_it_over() -> None:
    async with World(config=reserving(AFTER_S)) as world:
        world.add_nodes(2)
        for i in range(2):
            world.add_pod(make_pod(f"old-{i}").req(cpu=4).priority(100))
        await world.until(world.all_bound)
        add_gang(world, "early", 2)
        await world.sleep(5)
        add_gang(world, "late", 2)
        await world.sleep(AFTER_S + 10)
        held = held_by(world)
        assert held is not None
        assert held.key.name == "early"
        add_gang(world, "urgent", 2, priority=10)
        await world.sleep(AFTER_S + 2)
        held = held_by(world)
        assert held is not None
        assert held.key.name == "urgent"
        assert len(world.scheduler.nominations.by_pod) == 2
        for i in range(2):
            world.cluster.delete_pod(f"default/old-{i}")
        for name in ("urgent", "early", "late"):
            await world.until(partial(has_nodes, world, name))
            assert sum(placed(world, each) for each in ("urgent", "early", "late")) == 2
            for i in range(2):
                world.cluster.delete_pod(f"default/{name}-{i}")


@in_virtual_time
async def test_a_gang_that_asks_for_one_zone_has_its_room_in_one() -> None:
    async with World(config=reserving(AFTER_S), expect_conditions=False) as world:
        for i in range(4):
            node = make_node(f"n{i}").capacity(cpu=4, memory="16Gi").label("zone", f"z{i % 2}")
            world.add_node(node)
            world.add_pod(make_pod(f"old-{i}").req(cpu=3 if i in (0, 1, 3) else 1).node(f"n{i}"))
        world.add_pod(make_pod("older").req(cpu=1).node("n0"))
        world.cluster.create_object(near("train", 2, required="zone"))
        for pod in members("train", 2, 4):
            world.add_pod(pod)
        await world.sleep(AFTER_S + 2)
        held = held_by(world)
        assert held is not None
        assert sorted(held.nodes.values()) == ["n1", "n3"], "a pod must end on each; on n0 it would be two"
        for i in (1, 3):
            world.cluster.delete_pod(f"default/old-{i}")
        await world.until(lambda: placed(world, "train") == 2)


@in_virtual_time
async def test_no_room_is_reserved_for_a_gang_that_its_quota_keeps_out() -> None:
    args = "  pluginConfig: [{name: Coscheduling, args: {reserveAfterSeconds: 20}}]\n"
    config = parse_config(QUOTAS + "    permit: {enabled: [{name: Coscheduling}]}\n" + args, "test")
    async with World(config=config, expect_conditions=False) as world:
        world.add_nodes(2)
        world.cluster.create_object(quota("default", {"cpu": "4"}, {"cpu": "4"}))
        add_gang(world, "train", 5, cpu=1)
        await world.sleep(AFTER_S + 2)
        world.cluster.create_object(gang("small", 2))
        for pod in members("small", 2, 2):
            world.add_pod(pod)
        await world.until(lambda: has_nodes(world, "small"))
        assert held_by(world) is None
        assert reservations_of(world).failing_s(GangKey(COSCHEDULING_GROUP, "default", "train"))
        for i in range(5):
            world.cluster.delete_pod(f"default/train-{i}")
