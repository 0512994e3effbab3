"""Lists and watches that break, lag, repeat themselves or fall silent: the cache still becomes what the cluster is."""

from __future__ import annotations

import pytest

from kscheduler.client.protocol import Binding
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_pod
from tests.support.changes import resize
from tests.support.world import World, in_virtual_time


@pytest.mark.parametrize("kind", [FaultKind.CUT, FaultKind.SILENT, FaultKind.DUPLICATE, FaultKind.DELAYED])
@pytest.mark.parametrize("resource", ["pods", "nodes"])
def test_watches_that_misbehave_delay_pods_and_mislead_nobody(kind: FaultKind, resource: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World() as world:
            world.faults.add(kind, Verb.DELIVER, resource=resource, probability=0.4, delay_s=3.0)
            world.add_nodes(3, cpu="4")
            for index in range(30):
                world.add_pod(make_pod(f"p{index}").req(cpu="500m"))
                await world.sleep(0.5)
                if index % 4 == 0:
                    world.change_node("n0", resize(cpu=str(4 + index % 8)))
                if index % 5 == 0:
                    world.cluster.delete_pod(f"default/p{index // 2}")
                    world.add_pod(make_pod(f"p{index // 2}").req(cpu="250m"))
            await world.sleep(60)
            assert world.faults.struck(kind) > 3 or resource == "nodes"
            world.faults.clear()
            await world.sleep(60)
            assert not world.overlooked()

    scenario()


@in_virtual_time
async def test_a_watch_from_a_version_that_is_gone_lists_again_and_misses_nothing() -> None:
    async with World() as world:
        world.add_nodes(2, cpu="2")
        world.add_pod(make_pod("p0").req(cpu="2"))
        world.add_pod(make_pod("p1").req(cpu="2"))
        await world.until(world.all_bound)
        world.faults.add(FaultKind.CUT, Verb.DELIVER, count=2)
        world.faults.add(FaultKind.GONE, Verb.WATCH, count=2)
        world.cluster.delete_pod("default/p0")
        world.add_pod(make_pod("p2").req(cpu="2"))
        await world.until(world.all_bound)


@in_virtual_time
async def test_what_happens_during_a_silent_watch_is_found_out_when_the_watchdog_bites() -> None:
    async with World() as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound)
        world.faults.add(FaultKind.SILENT, Verb.DELIVER, resource="pods", delay_s=180.0, count=1)
        world.cluster.delete_pod("default/p")
        world.add_pod(make_pod("q").req(cpu="1"))
        await world.sleep(170)
        assert not world.node_of("q")
        await world.until(world.all_bound, within_s=30)


@in_virtual_time
async def test_pods_we_bound_hold_their_room_however_late_the_watch_confirms_them() -> None:
    async with World(latency=Latency(watch_s=20.0)) as world:
        world.add_node("n1", cpu="2")
        for index in range(6):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(lambda: len(world.pending()) == 4)
        await world.sleep(10)
        assert world.scheduler.cache.sizes()["assumed_pods"] == 2


@in_virtual_time
async def test_bindings_that_a_stale_first_list_did_not_show_are_conflicts_and_nothing_worse() -> None:
    async with World() as world:
        world.add_nodes(3, cpu="4")
        for index in range(3):
            pod = world.add_pod(make_pod(f"p{index}").req(cpu="3"))
            world.cluster.bind(Binding("default", f"p{index}", pod.metadata.uid, f"n{index}"))
        world.faults.add(FaultKind.STALE_LIST, Verb.LIST, resource="pods", count=1, changes=3)
        world.add_pod(make_pod("late").req(cpu="3"))
        await world.sleep(30)
        assert [world.node_of(f"p{index}") for index in range(3)] == ["n0", "n1", "n2"]


@in_virtual_time
async def test_no_pod_is_placed_before_nodes_and_pods_were_listed_once() -> None:
    async with World() as world:
        world.add_node("n1", cpu="1")
        pod = world.add_pod(make_pod("old").req(cpu="1"))
        world.cluster.bind(Binding("default", "old", pod.metadata.uid, "n1"))
        world.add_pod(make_pod("new").req(cpu="1"))
        world.faults.add(FaultKind.SERVER_ERROR, Verb.LIST, resource="pods", count=4)
        await world.sleep(2)
        assert not world.judge.decisions
        await world.until(lambda: world.condition("new") is not None)
        assert not world.judge.decisions


@in_virtual_time
async def test_lists_of_many_pages_are_complete() -> None:
    async with World() as world:
        world.add_nodes(3, cpu="1000", memory="4Ti", pods=2000)
        for index in range(520):  # a page has 500
            world.add_pod(make_pod(f"p{index}").req(cpu="100m"))
        await world.until(world.all_bound)
