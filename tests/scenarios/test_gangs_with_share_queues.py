"""Gangs in queues with shares: a queue takes a gang's minimum or none of it, and a turn is a whole gang's."""

from __future__ import annotations

from collections import Counter

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.load import parse_config
from kscheduler.testing import make_pod
from tests.scenarios.gangs import bound_pods, gang
from tests.scenarios.share_queues import LABEL, WITH_GANGS, queue
from tests.support.world import World, in_virtual_time


def world() -> World:
    return World(config=parse_config(WITH_GANGS, "test"), expect_conditions=False)


def add_members(here: World, name: str, count: int, queue: str) -> None:
    for number in range(count):
        here.add_pod(make_pod(f"{name}-{number}").label(POD_GROUP_LABEL, name, LABEL, queue).req(cpu="1"))


@in_virtual_time
async def test_a_gang_beyond_the_limit_takes_nothing_of_it() -> None:
    async with world() as here:
        here.cluster.create_object(queue("a", limit=4))
        here.add_node("n1", cpu="10")
        here.cluster.create_object(gang("large", 5))
        here.cluster.create_object(gang("small", 4))
        add_members(here, "large", 5, "a")
        await here.sleep(5.0)
        assert not bound_pods(here)
        add_members(here, "small", 4, "a")
        await here.until(lambda: bound_pods(here) == {"small": 4})
        await here.sleep(30.0)
        assert bound_pods(here) == {"small": 4}


@in_virtual_time
async def test_queues_take_turns_with_whole_gangs() -> None:
    async with world() as here:
        for name in ("a", "b"):
            here.cluster.create_object(queue(name))
        await here.sleep(1.0)
        for number in range(3):
            for name in ("a", "b"):
                here.cluster.create_object(gang(f"{name}{number}", 3))
                add_members(here, f"{name}{number}", 3, name)
        here.add_node("n1", cpu="12")
        await here.until(lambda: bound_pods(here).total() == 12)
        assert Counter(gang[0] for gang in bound_pods(here).elements()) == {"a": 6, "b": 6}
