"""Each queue with shares has a reservation of its own: within what it may use, and never in the way of another one."""

from __future__ import annotations

from collections import Counter, deque
from functools import partial

from kscheduler.config.load import parse_config
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.text import explanation_text
from kscheduler.gangs.reservations import Reservation
from kscheduler.scheduler import Options
from kscheduler.testing.wrappers import PodBuilder, make_pod
from tests.scenarios.gangs import gang, members
from tests.scenarios.share_queues import LABEL, RESERVING, queue
from tests.support.world import World, in_virtual_time

AFTER_S = 20
CONFIG = RESERVING.replace("AFTER", str(AFTER_S))


def world(*queues: str, options: Options | None = None) -> World:
    """A world in which nobody is evicted, with queues of equal shares."""
    made = World(config=parse_config(CONFIG, "test"), expect_conditions=False, options=options)
    for name in queues:
        made.cluster.create_object(queue(name))
    return made


def held(here: World) -> dict[str, Reservation]:
    """Name of a gang -> its reservation. All of them can come true together."""
    parts = here.scheduler.gangs
    assert parts is not None
    assert parts.reservations is not None
    found = parts.reservations.held.values()
    assert len({each.queue for each in found}) == len(found), "a queue has several"
    promised = Counter(node for each in found for node in each.nodes.values())
    for uid, each in here.scheduler.nominations.by_pod.items():
        assert any(one.nodes.get(uid) == each.node_name for one in found), f"{uid} is nominated without a reservation"
    assert promised.keys() <= here.cluster.nodes.keys()
    return {each.key.name: each for each in found}


def pod(name: str, of: str, cpu: int = 1, priority: int = 0) -> PodBuilder:
    return make_pod(name).label(LABEL, of).req(cpu=cpu).priority(priority)


def add_gang(here: World, name: str, of: str, count: int, cpu: int = 4, priority: int = 0) -> None:
    here.cluster.create_object(gang(name, count))
    for each in members(name, count, cpu):
        here.add_pod(each.label(LABEL, of).priority(priority))


def is_placed(here: World, name: str, count: int = 2) -> bool:
    return all(here.node_of(f"{name}-{i}") for i in range(count))


class Stream:
    """Small pods of some queues: each second the oldest one with a node ends, and one of its queue comes."""

    def __init__(self, here: World, *queues: str, at_once: int) -> None:
        self._world = here
        self._number = 0
        self._alive: deque[tuple[str, str]] = deque()
        for _ in range(at_once):
            for of in queues:
                self._come(of)

    def _come(self, of: str) -> None:
        self._number += 1
        name = f"small-{self._number}"
        self._world.add_pod(pod(name, of))
        self._alive.append((name, of))

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            await self._world.sleep(1.0)
            ended = next((each for each in self._alive if self._world.node_of(each[0])), None)
            if ended is not None:
                self._alive.remove(ended)
                self._world.cluster.delete_pod(f"default/{ended[0]}")
                self._come(ended[1])

    def end(self) -> None:
        for name, _ in self._alive:
            self._world.cluster.delete_pod(f"default/{name}")


@in_virtual_time
async def test_gangs_of_two_queues_get_room_side_by_side_under_small_pods_of_both() -> None:
    async with world("a", "b") as here:
        here.add_nodes(6)
        stream = Stream(here, "a", "b", at_once=14)
        await stream.run(5)
        add_gang(here, "train-a", "a", 2)
        add_gang(here, "train-b", "b", 2)
        await stream.run(AFTER_S + 5)
        found = held(here)
        assert found.keys() == {"train-a", "train-b"}
        assert len({node for each in found.values() for node in each.nodes.values()}) == 4
        await stream.run(100)
        assert is_placed(here, "train-a")
        assert is_placed(here, "train-b")
        assert not held(here)
        stream.end()
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_queue_at_its_limit_holds_its_small_pods_back_for_its_gang() -> None:
    async with world("b") as here:
        here.cluster.create_object(queue("a", limit=8))
        here.add_nodes(4)
        stream = Stream(here, "a", at_once=10)
        await stream.run(5)
        add_gang(here, "train", "a", 2)
        await stream.run(AFTER_S + 5)
        assert held(here).keys() == {"train"}
        assert not is_placed(here, "train")
        await stream.run(30)
        assert is_placed(here, "train")
        stream.end()
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_gang_beyond_the_limit_of_its_queue_keeps_no_room() -> None:
    async with world("b") as here:
        here.cluster.create_object(queue("a", limit=7))
        here.add_nodes(4)
        add_gang(here, "train", "a", 2)
        await here.sleep(3 * AFTER_S)
        assert not held(here)
        for i in range(2):
            here.cluster.delete_pod(f"default/train-{i}")


@in_virtual_time
async def test_no_room_is_kept_for_a_queue_that_uses_its_share_and_others_take_what_becomes_free() -> None:
    async with world("a", "b") as here:
        here.add_nodes(4)
        for i in range(2):
            here.add_pod(pod(f"old-{i}", "b", cpu=4))
        await here.until(here.all_bound)
        add_gang(here, "first", "a", 4, cpu=2)  # on the nodes that are left
        await here.until(here.all_bound)
        for i in range(4):
            here.add_pod(pod(f"late-{i}", "b", cpu=2))
        add_gang(here, "second", "a", 2)
        await here.sleep(2 * AFTER_S)
        assert not held(here), "it would be room of queue b, and queue a uses its share already"
        here.cluster.delete_pod("default/old-0")
        await here.until(lambda: any(here.node_of(f"late-{i}") for i in range(4)))
        for i in range(4):
            here.cluster.delete_pod(f"default/first-{i}")
        for name in ("late-0", "late-1", "late-2", "late-3", "old-1"):
            here.cluster.delete_pod(f"default/{name}")
        await here.until(here.all_bound)


@in_virtual_time
async def test_of_one_queue_the_first_gang_has_the_reservation_and_priorities_of_other_queues_take_none() -> None:
    async with world("a", "b", "c", options=Options(explain=DecisionLogOptions())) as here:
        here.add_nodes(4)
        for i in range(4):
            here.add_pod(pod(f"old-{i}", "c", cpu=4))
        await here.until(here.all_bound)
        add_gang(here, "early", "a", 1)
        add_gang(here, "other", "b", 1)
        await here.sleep(5)
        add_gang(here, "late", "a", 1)
        await here.sleep(AFTER_S + 10)
        assert held(here).keys() == {"early", "other"}
        add_gang(here, "urgent", "a", 1, priority=10)
        await here.sleep(AFTER_S + 10)
        found = held(here)
        assert found.keys() == {"urgent", "other"}
        (node,) = found["other"].nodes.values()
        old = next(name for name in ("old-0", "old-1", "old-2", "old-3") if here.node_of(name) == node)
        here.add_pod(pod("important", "a", cpu=1, priority=20))
        await here.sleep(5)
        explainer = explainer_of(here)
        document = explainer.explain("default/important")
        assert document is not None
        assert [each["queue"] for each in document["reservations"]] == ["b"]
        assert explanation_text(document).count("Reserved for gang default/other, which has failed for ") == 1
        here.cluster.delete_pod(f"default/{old}")
        await here.until(lambda: is_placed(here, "other", 1))
        assert not here.node_of("important")
        for i in range(4, 8):
            here.add_node(f"n{i}")
        await here.until(here.all_bound, within_s=400)


@in_virtual_time
async def test_of_reservations_that_exclude_each_other_by_a_change_of_the_cluster_the_older_one_goes_first() -> None:
    async with world("c") as here:
        for of in "ab":
            here.cluster.create_object(queue(of, deserved=2))
        here.add_nodes(1)
        for i in range(2):
            here.add_pod(pod(f"old-{i}", "c", cpu=2))
        await here.until(here.all_bound)
        for of in "ab":
            add_gang(here, f"train-{of}", of, 1, cpu=2)
        await here.sleep(AFTER_S + 5)
        assert held(here).keys() == {"train-a", "train-b"}
        here.add_pod(make_pod("foreign").req(cpu=1).node("n0"))
        await here.sleep(1)
        for i in range(2):
            here.cluster.delete_pod(f"default/old-{i}")
        await here.until(lambda: is_placed(here, "train-a", 1), within_s=15)
        assert not is_placed(here, "train-b", 1)
        here.cluster.delete_pod("default/foreign")
        await here.until(here.all_bound)


@in_virtual_time
async def test_a_gang_that_changes_its_queue_keeps_room_for_the_new_one_only() -> None:
    async with world("a", "b") as here:
        here.add_nodes(2)
        for i in range(2):
            here.add_pod(pod(f"old-{i}", "b", cpu=4))
        await here.until(here.all_bound)
        add_gang(here, "train", "a", 1)
        await here.until(partial(_is_held_for, here, "a"), within_s=2 * AFTER_S)
        here.cluster.delete_pod("default/train-0")
        here.add_pod(members("train", 1, 4)[0].label(LABEL, "b"))
        await here.until(partial(_is_held_for, here, "b"), within_s=4 * AFTER_S)
        here.cluster.delete_pod("default/old-0")
        await here.until(here.all_bound)


def _is_held_for(here: World, of: str) -> bool:
    return [each.queue for each in held(here).values()] == [of]


def explainer_of(here: World) -> Explainer:
    explainer = here.scheduler.explainer(lambda: Leadership("me_1", True, "me_1"))
    assert explainer is not None
    return explainer
