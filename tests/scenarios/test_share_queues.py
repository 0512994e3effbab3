"""Queues with shares in a whole scheduler: they take turns, lend what others do not use, and take it back."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import (
    KaiQueueObject,
    KaiQueueSpec,
    KaiResource,
    KaiResources,
    QueueObject,
    QueueStatus,
)
from kscheduler.client.kinds import SHARE_QUEUES
from kscheduler.config.load import parse_config
from kscheduler.queue.active_queue import ActiveQueue
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import PodBuilder, make_pod
from tests.scenarios.share_queues import CONFIG, LABEL, queue
from tests.support.world import World, in_virtual_time


def world() -> World:
    return World(config=parse_config(CONFIG, "test"))


def pod(name: str, queue: str, cpu: str = "1", priority: int = 0) -> PodBuilder:
    made = make_pod(name).req(cpu=cpu).priority(priority).grace_period(0)
    return made.label(LABEL, queue) if queue else made


def bound(world: World) -> Counter[str]:
    """How many pods of each queue have a node."""
    return Counter(
        (each.metadata.labels or {}).get(LABEL, "") for each in world.cluster.pods.values() if each.spec.node_name
    )


def has_queues(world: World, *queues: QueueObject) -> None:
    for each in queues:
        world.cluster.create_object(each)


@in_virtual_time
async def test_a_queue_uses_what_others_do_not_use_until_they_want_it() -> None:
    async with world() as here:
        has_queues(here, queue("team"), queue("a", "team", 2), queue("b", "team", 2))
        await here.sleep(1.0)
        here.add_node("n1", cpu="4")
        for number in range(4):
            here.add_pod(pod(f"p{number}", "a", priority=10 * number))
        await here.until(here.all_bound)
        assert bound(here) == {"a": 4}
        here.add_pod(pod("q0", "b"))
        here.add_pod(pod("q1", "b"))
        await here.until(lambda: bound(here) == {"a": 2, "b": 2})
        assert {each.metadata.name for each in here.cluster.pods.values()} >= {"p2", "p3"}, "the least important went"


@pytest.mark.parametrize(
    ("coming", "told"),
    [
        pytest.param(pod("q", "b"), "a pod, by the shares of queues", id="another queue"),
        pytest.param(pod("q", "a", priority=90), "a higher priority pod", id="the same queue"),
    ],
)
def test_victims_are_told_whether_shares_or_priorities_decided(coming: PodBuilder, told: str) -> None:
    @in_virtual_time
    async def play() -> None:
        async with World(config=parse_config(CONFIG, "test"), expect_conditions=False) as here:
            has_queues(here, queue("a", "", 2), queue("b", "", 2))
            await here.sleep(1.0)
            here.add_node("n1", cpu="4")
            for number in range(4):
                here.add_pod(pod(f"p{number}", "a", priority=10 * number).grace_period(600))
            await here.until(here.all_bound)
            here.add_pod(coming)
            await here.until(lambda: bool(here.pod("p0").metadata.deletion_timestamp))
            conditions = here.pod("p0").status.conditions or ()
            [message] = [each.message for each in conditions if each.type == "DisruptionTarget"]
            assert message == f"default-scheduler: preempting to accommodate {told}"

    play()


@in_virtual_time
async def test_queues_that_want_more_than_there_is_get_it_by_their_weights() -> None:
    async with world() as here:
        has_queues(here, queue("a", weight=3), queue("b", weight=1))
        await here.sleep(1.0)
        for name in ("a", "b"):
            for number in range(12):
                here.add_pod(pod(f"{name}{number}", name))
        here.add_node("n1", cpu="8")
        await here.until(lambda: sum(bound(here).values()) == 8)
        assert bound(here) == {"a": 6, "b": 2}


@in_virtual_time
async def test_a_pod_takes_its_share_soon_after_others_ask_for_less() -> None:
    async with world() as here:
        has_queues(here, queue("a"), queue("b"), queue("c"))
        await here.sleep(1.0)
        here.add_node("n1", cpu="6")
        for number in range(6):
            here.add_pod(pod(f"a{number}", "a"))
        await here.until(here.all_bound)
        for number in range(3):
            here.add_pod(pod(f"c{number}", "c").node_selector(disk="none"))  # they ask for a third, in vain
            here.add_pod(pod(f"b{number}", "b"))
        await here.sleep(20.0)
        assert bound(here) == {"a": 4, "b": 2}
        for number in range(3):
            here.cluster.delete_pod(f"default/c{number}")
        await here.until(lambda: bound(here) == {"a": 3, "b": 3}, within_s=30.0)  # pods are swept after 300


@in_virtual_time
async def test_nobody_takes_room_back_and_forth() -> None:
    async with world() as here:
        has_queues(here, queue("a"), queue("b"), queue("c"))
        await here.sleep(1.0)
        here.add_node("n1", cpu="7")
        for number in range(12):
            here.add_pod(pod(f"a{number}", "a"))
        await here.until(lambda: sum(bound(here).values()) == 7)
        for number in range(12):
            here.add_pod(pod(f"b{number}", "b"))
            here.add_pod(pod(f"c{number}", "c"))
        await here.sleep(60.0)
        settled = bound(here)
        assert sorted(settled.values()) == [2, 2, 3]
        evicted = 36 - len(here.cluster.pods)
        await here.sleep(600.0)
        assert bound(here) == settled
        assert 36 - len(here.cluster.pods) == evicted


@in_virtual_time
async def test_no_pod_goes_beyond_a_limit_and_it_is_tried_again_when_one_ends() -> None:
    async with world() as here:
        has_queues(here, queue("team", limit=2), queue("a", "team"))
        await here.sleep(1.0)
        here.add_node("n1", cpu="10")
        for number in range(3):
            here.add_pod(pod(f"p{number}", "a"))
        await here.until(lambda: bound(here) == {"a": 2})
        await here.sleep(10.0)
        condition = here.condition("default/p2")
        assert condition is not None
        assert condition.message == (
            "0/1 nodes are available: queue team would exceed its limit of cpu (team: 2 of 0 deserved, fair share 2, "
            "limit 2, would be 3). 0/1 nodes are available: 1 No victims found for preemptor pod p2."
        )
        here.cluster.delete_pod("default/p0")
        await here.until(here.all_bound)


@in_virtual_time
async def test_pods_of_a_queue_that_is_not_there_wait_for_it() -> None:
    async with world() as here:
        here.add_node("n1", cpu="10")
        here.add_pod(pod("p", "a"))
        await here.sleep(5.0)
        assert not bound(here)
        condition = here.condition("default/p")
        assert condition is not None
        assert 'queue "a" does not exist' in condition.message
        has_queues(here, queue("a", limit=0))
        await here.sleep(5.0)
        assert not bound(here)
        here.cluster.update_object(
            replace(here.cluster.store(SHARE_QUEUES).objects["a"], spec=queue("a", limit=1).spec)
        )
        await here.until(here.all_bound)
        here.cluster.delete_object(SHARE_QUEUES, "a")
        here.add_pod(pod("q", "a"))
        await here.sleep(5.0)
        assert bound(here) == {"a": 1}


@in_virtual_time
async def test_queues_that_are_wrong_do_not_harm_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with world() as here:
            has_queues(here, queue("a"), queue("x", "y"), queue("y", "x"), queue("bad", deserved="much"))
            await here.sleep(1.0)
            here.add_node("n1", cpu="10")
            for name in ("a", "x", "bad"):
                here.add_pod(pod(f"of-{name}", name))
            await here.until(lambda: bound(here) == {"a": 1})
            await here.sleep(5.0)
            assert bound(here) == {"a": 1}
            condition = here.condition("default/of-bad")
            assert condition is not None
            assert 'expected an amount of at least 0 or "unlimited", got "much"' in condition.message
            here.cluster.update_object(queue("a", limit=5))
            await here.sleep(5.0)
    faults = [record.__dict__["queue"] for record in caplog.records if record.message == "a queue cannot be used"]
    assert sorted(faults) == ["bad", "x", "y"], "each is logged once"


@in_virtual_time
async def test_kais_queues_are_read_and_one_name_counts_once() -> None:
    async with world() as here:
        terms = KaiResource(limit=1000)
        spec = KaiQueueSpec(resources=KaiResources(gpu=KaiResource(limit=-1), cpu=terms, memory=KaiResource(limit=-1)))
        here.cluster.create_object(KaiQueueObject(ObjectMeta(name="a"), spec))
        await here.sleep(1.0)
        here.add_node("n1", cpu="10")
        for number in range(2):
            here.add_pod(pod(f"p{number}", "a"))
        await here.until(lambda: bound(here) == {"a": 1})
        has_queues(here, queue("a"))
        await here.sleep(5.0)
        assert bound(here) == {"a": 1}
        here.add_pod(pod("p2", "a"))
        await here.sleep(20.0)
        condition = here.condition("default/p2")
        assert condition is not None
        assert "expected one queue of this name, got two" in condition.message


@in_virtual_time
async def test_pods_in_no_queue_are_scheduled_as_ever() -> None:
    async with world() as here:
        has_queues(here, queue("a"))
        await here.sleep(1.0)
        here.add_node("n1", cpu="4")
        here.add_pod(pod("a0", "a", "3"))
        await here.until(here.all_bound)
        here.add_pod(pod("p", "", "4", priority=1000))
        await here.until(lambda: bound(here) == {"": 1})


@in_virtual_time
async def test_a_queues_status_says_how_it_stands_and_why_it_cannot_be_used() -> None:
    async with world() as here:
        has_queues(here, queue("a", deserved=2), queue("lost", "gone"))
        await here.sleep(1.0)
        here.add_node("n1", cpu="3")
        for number in range(4):
            here.add_pod(pod(f"p{number}", "a"))
        await here.until(lambda: bound(here) == {"a": 3})
        here.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_QUEUE, count=2)
        await here.sleep(60.0)
        status = here.cluster.store(SHARE_QUEUES).objects["a"].status
        assert status == QueueStatus("", {"cpu": "3"}, {"cpu": "4"}, {"cpu": "3"})
        assert "expected a queue above lost" in here.cluster.store(SHARE_QUEUES).objects["lost"].status.message
        versions = [each.metadata.resource_version for each in here.cluster.store(SHARE_QUEUES).objects.values()]
        await here.sleep(60.0)
        assert versions == [
            each.metadata.resource_version for each in here.cluster.store(SHARE_QUEUES).objects.values()
        ], "what has not changed is not written"
        for number in range(4):
            here.cluster.delete_pod(f"default/p{number}")
        here.cluster.create_object(queue("gone"))
        await here.sleep(60.0)
        status = here.cluster.store(SHARE_QUEUES).objects["a"].status
        assert status == QueueStatus("", {"cpu": "0"}, {"cpu": "0"}, {"cpu": "0"})
        assert here.cluster.store(SHARE_QUEUES).objects["lost"].status.message == ""


@in_virtual_time
async def test_nothing_is_watched_and_counted_where_no_profile_shares_by_queues() -> None:
    async with World() as here:
        here.cluster.create_object(queue("a", limit=0))
        here.add_node("n1", cpu="4")
        here.add_pod(pod("p", "a"))
        await here.until(here.all_bound)
        scheduler = here.scheduler
        assert scheduler.share_queues is None
        assert all(informer.resource is not SHARE_QUEUES for informer in scheduler.informers)
        assert type(scheduler.queue._active) is ActiveQueue
