"""What becomes of pods when their bindings go wrong, in every way an apiserver knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.binding_writer import BindingWriter
from kscheduler.client.protocol import Binding
from kscheduler.client.ratelimit import RateLimiter
from kscheduler.client.request_observer import NoObserver
from kscheduler.client.slots import Slots
from kscheduler.scheduler import Options
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_pod
from tests.support.world import World, in_virtual_time

REFUSALS = [
    FaultKind.CONFLICT,
    FaultKind.NOT_FOUND,
    FaultKind.GONE,
    FaultKind.TOO_MANY_REQUESTS,
    FaultKind.SERVER_ERROR,
    FaultKind.FAILED_WEBHOOK,
    FaultKind.TIMEOUT,
]


@pytest.mark.parametrize("kind", [*REFUSALS, FaultKind.LOST_ANSWER, FaultKind.SLOW])
def test_a_third_of_all_bindings_failing_delays_pods_and_loses_none(kind: FaultKind) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(latency=Latency(bind_s=0.05, jitter=0.5)) as world:
            world.faults.add(kind, Verb.BIND, probability=0.3, delay_s=0.5)
            world.add_nodes(6, cpu="8", memory="32Gi")
            for index in range(200):
                world.add_pod(make_pod(f"p{index}").req(cpu="200m"))
            await world.until(world.all_bound, within_s=120)
            assert world.faults.struck(kind) > 20
            assert set(world.judge.binds.values()) == {1}

    scenario()


@pytest.mark.parametrize("kind", REFUSALS[:3])
def test_a_refused_binding_gives_its_room_back_at_once_and_the_pod_tries_again(kind: FaultKind) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World() as world:
            world.faults.add(kind, Verb.BIND, count=1)
            world.add_node("n1", cpu="1")
            world.add_pod(make_pod("first").req(cpu="1").priority(1))
            await world.until(lambda: world.condition("first") is not None)
            condition = world.condition("first")
            assert condition is not None
            assert condition.reason == "SchedulerError"
            assert condition.message.startswith('running Bind plugin "DefaultBinder": ')
            await world.until(world.all_bound, within_s=3)
            assert world.judge.decisions[world.pod("first").metadata.uid] == 2

    scenario()


@in_virtual_time
async def test_others_that_were_turned_away_get_the_room_of_a_binding_that_failed() -> None:
    async with World(latency=Latency(bind_s=1.0)) as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("doomed").req(cpu="1").priority(1))
        world.add_pod(make_pod("waiting").req(cpu="1"))
        await world.sleep(0.2)
        world.cluster.delete_pod("default/doomed")
        await world.until(world.all_bound, within_s=5)


@in_virtual_time
async def test_a_webhook_that_fails_in_one_namespace_does_not_hold_up_the_pods_of_others() -> None:
    async with World() as world:
        world.add_nodes(4, cpu="1000", pods="2000")
        world.faults.add(
            FaultKind.FAILED_WEBHOOK, Verb.BIND, matches=lambda subject: getattr(subject, "namespace", "") == "broken"
        )
        for index in range(500):
            world.add_pod(make_pod(f"p{index}", "broken").req(cpu="1"))
        await world.sleep(5.0)
        for index in range(50):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(lambda: all(world.node_of(f"p{index}") for index in range(50)), within_s=5.0)
        condition = world.condition("broken/p0")
        assert condition is not None
        assert 'failed calling webhook "example.com"' in condition.message
        world.faults.clear()
        await world.until(world.all_bound, within_s=15.0)


@in_virtual_time
async def test_retry_after_is_obeyed() -> None:
    async with World() as world:
        world.faults.add(FaultKind.TOO_MANY_REQUESTS, Verb.BIND, count=1, retry_after_s=7.0)
        world.add_node("n1")
        world.add_pod(make_pod("p"))
        await world.sleep(6.9)
        assert not world.node_of("p")
        await world.until(world.all_bound, within_s=0.5)


@in_virtual_time
async def test_a_binding_whose_answer_was_lost_is_neither_repeated_elsewhere_nor_given_up() -> None:
    async with World() as world:
        world.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        world.add_nodes(2, cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        world.add_pod(make_pod("q").req(cpu="1"))
        await world.until(lambda: world.cluster.event_counts["Scheduled"] == 2)
        assert world.judge.decisions.total() == 2
        assert {world.node_of("p"), world.node_of("q")} == {"n0", "n1"}


@in_virtual_time
async def test_an_answer_lost_while_nothing_else_can_be_asked_keeps_the_room_until_it_is_certain() -> None:
    async with World() as world:
        world.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        world.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=5)
        world.faults.add(FaultKind.SERVER_ERROR, Verb.GET_POD, count=5)
        world.faults.add(FaultKind.CUT, Verb.DELIVER, resource="pods", probability=0.5)
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        world.add_pod(make_pod("q").req(cpu="1"))
        await world.until(lambda: world.cluster.event_counts["Scheduled"] == 1, within_s=60)
        world.faults.clear()
        assert len(world.pending()) == 1
        assert world.judge.binds.total() == 1


@in_virtual_time
async def test_an_answer_lost_and_the_pod_recreated_meanwhile_binds_the_new_pod_on_its_own() -> None:
    async with World() as world:
        world.faults.add(FaultKind.LOST_ANSWER, Verb.BIND, count=1)
        world.faults.add(FaultKind.TIMEOUT, Verb.BIND, count=2)
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: bool(world.node_of("p")))
        world.cluster.delete_pod("default/p")
        again = world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound)
        assert world.judge.binds[again.metadata.uid] == 1


@in_virtual_time
async def test_an_apiserver_that_is_down_for_a_while_delays_everything_and_breaks_nothing() -> None:
    async with World(latency=Latency(bind_s=0.2), options=Options(bind_concurrency=8)) as world:
        world.add_nodes(4, cpu="16", memory="64Gi")
        for index in range(100):
            world.add_pod(make_pod(f"p{index}").req(cpu="500m"))
        await world.sleep(0.7)
        world.cluster.stop()
        bound = 100 - len(world.pending())
        assert 0 < bound < 100
        await world.sleep(45)
        assert 100 - len(world.pending()) == bound
        world.cluster.start()
        await world.until(world.all_bound, within_s=60)
        assert world.judge.decisions.total() == 100
        await world.until(lambda: world.cluster.event_counts["Scheduled"] == 100)


@in_virtual_time
async def test_changes_made_while_the_apiserver_was_away_are_found_out() -> None:
    async with World() as world:
        world.add_nodes(2, cpu="2")
        world.add_pod(make_pod("p0").req(cpu="2"))
        world.add_pod(make_pod("p1").req(cpu="2"))
        await world.until(world.all_bound)
        world.cluster.stop()
        await world.sleep(5)
        world.cluster.delete_pod("default/p0")
        world.cluster.delete_node("n0")
        world.add_node("n2", cpu="1")
        theirs = world.add_pod(make_pod("theirs").req(cpu="1"))
        world.cluster.bind(Binding("default", "theirs", theirs.metadata.uid, "n2"))
        world.add_pod(make_pod("ours").req(cpu="1"))
        world.cluster.compact()
        world.cluster.start()
        await world.sleep(60)
        assert world.node_of("ours") != "n2"


@in_virtual_time
async def test_events_that_cannot_be_written_delay_no_binding() -> None:
    async with World() as world:
        world.faults.add(FaultKind.TIMEOUT, {Verb.CREATE_EVENT, Verb.PATCH_STATUS}, delay_s=30.0)
        world.add_nodes(3)
        world.add_pod(make_pod("impossible").req(cpu="100"))
        for index in range(100):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m"))
        await world.until(lambda: len(world.pending()) == 1, within_s=1)
        world.faults.clear()


@in_virtual_time
async def test_a_condition_is_not_written_after_its_pod_was_bound() -> None:
    async with World() as world:
        world.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_STATUS, count=1)
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="2"))
        await world.sleep(0.5)
        world.add_node("n2")
        await world.until(world.all_bound, within_s=0.4)
        await world.sleep(30)
        condition = world.condition("p")
        assert condition is not None
        assert condition.status == "True"


class Paced:
    """What a writer of bindings needs of a transport: it has the cluster in memory carry each out when it is sent."""

    host = "apiserver"
    is_direct = True
    fresh_until = float("inf")

    def __init__(self, world: World) -> None:
        self.credentials = self
        self.observer = NoObserver()
        self._world = world
        self.sent: list[tuple[str, str]] = []  # (pod, node)

    def send(self, sent: Any, *request: object) -> None:
        binding = sent.request.binding
        self.sent.append((binding.name, binding.node))
        self._world.cluster.bind(binding)
        sent.slots.ended(sent.slot, None)
        asyncio.get_running_loop().call_soon(sent.on_answer, None)

    def let_write(self, qps: float) -> None:
        """Have the scheduler's bindings written here, at a rate."""
        limit = AdaptiveLimit(100)
        limit.value = 100
        transport: Any = self
        slots, limiter = Slots(limit), RateLimiter(qps, 1, self._world.clock)
        self._world.scheduler._bind_lane._direct = BindingWriter(
            transport, limiter, slots, self._world.clock, accept="", timeout_s=1.0
        )


@in_virtual_time
async def test_a_binding_that_waits_for_the_rate_limit_while_its_node_is_deleted_is_decided_again() -> None:
    async with World() as world:
        paced = Paced(world)
        paced.let_write(qps=0.5)
        world.add_node("n1")
        for index in range(3):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(lambda: bool(world.node_of("p0")))
        await world.until(lambda: len(world.scheduler.bindings) == 2)
        world.cluster.delete_node("n1")
        await world.sleep(1.0)
        assert not len(world.scheduler.bindings)
        world.add_node("n2")
        await world.until(world.all_bound)
        assert sorted(paced.sent) == [("p0", "n1"), ("p1", "n2"), ("p2", "n2")]
        world.cluster.delete_pod("default/p0")
