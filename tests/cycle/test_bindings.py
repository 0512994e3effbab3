"""All bindings under way: those that are written at once, and those that follow PreBind. In virtual time."""

from __future__ import annotations

import asyncio
import random

from kscheduler.client.bind_lane import BindLane
from kscheduler.client.binder import Binder
from kscheduler.cycle.binding_tasks import BindingTasks
from kscheduler.cycle.bindings import Bindings
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Status
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.cycle.bench import Bench


class Slow:
    """PreBind that takes two seconds."""

    name = "Slow"

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        await asyncio.sleep(2.0)
        return None


class World:
    """A pod that is decided, in a cluster where a binding takes half a second."""

    def __init__(self) -> None:
        self.cluster = Cluster(LoopClock(asyncio.get_running_loop()))
        self.bench = Bench({"preBind": [Slow()]})
        self.bench.node("n1")
        client = self.cluster.client(latency=Latency(bind_s=0.5))
        self.bindings = Bindings(
            self.bench.one,
            BindingTasks(10, lambda: None),
            BindLane(client, Binder(client, random.Random(0))),
            lambda: None,
        )
        self.cluster.create_pod(make_pod("p").obj())

    def start(self) -> None:
        self.bindings.start(self.bench.decide(make_pod("p")))

    @property
    def node(self) -> str:
        return self.cluster.pods["default/p"].spec.node_name or ""


def test_draining_waits_for_the_binding_that_follows_pre_bind() -> None:
    async def scenario() -> None:
        world = World()
        world.start()
        assert len(world.bindings) == 1
        assert await world.bindings.drain(60.0) == 0
        assert asyncio.get_running_loop().time() == 2.5
        assert world.node == "n1"
        assert world.bench.bound == []  # the Bind plugin was not called
        assert world.bench.attempts("scheduled") == 1
        assert not world.bench.queue.is_in_flight("uid-default-p")

    run_virtual(scenario())


def test_draining_ends_in_time_wherever_a_binding_is() -> None:
    async def scenario() -> None:
        for timeout_s in (1.0, 2.25):
            world = World()
            world.start()
            started = asyncio.get_running_loop().time()
            assert await world.bindings.drain(timeout_s) == 1
            assert asyncio.get_running_loop().time() - started == timeout_s
            await world.bindings.cancel()

    run_virtual(scenario())


def test_after_cancelling_nothing_is_written() -> None:
    async def scenario() -> None:
        world = World()
        world.start()
        await asyncio.sleep(1.0)
        await world.bindings.cancel()
        await asyncio.sleep(60.0)
        assert (world.node, len(world.bindings)) == ("", 0)

    run_virtual(scenario())


def test_a_binding_that_is_refused_after_pre_bind_gives_the_room_back() -> None:
    async def scenario() -> None:
        world = World()
        world.cluster.delete_pod("default/p")
        world.start()
        await world.bindings.drain(60.0)
        assert not world.bench.cache.is_assumed("uid-default-p")
        assert world.bench.attempts("error") == 1

    run_virtual(scenario())
