"""Others bind, delete, recreate and change pods and nodes while the scheduler is at it."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.client.protocol import Binding
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_node, make_pod
from tests.support.changes import cordon, heartbeat, relabel, resize, select, taint, tolerate
from tests.support.world import World, in_virtual_time

SLOW_BINDS = Latency(bind_s=2.0)
BEFORE_IT_COUNTS_S = 0.5  # the binding is sent, and not carried out yet
AFTER_IT_COUNTS_S = 1.5  # it is carried out, and not answered yet


# --- pods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when_s", [0.0, BEFORE_IT_COUNTS_S])
def test_a_pod_bound_by_somebody_else_first_stays_where_they_put_it(when_s: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(latency=SLOW_BINDS) as world:
            world.add_node("n1", cpu="4")
            world.add_node(make_node("n2").capacity(cpu="4", memory="16Gi").taint("theirs"))
            world.add_pod(make_pod("p").req(cpu="3"))
            await world.sleep(when_s)
            world.bind_elsewhere("p", "n2")
            await world.sleep(5)
            assert world.node_of("p") == "n2"
            assert not world.events("p")
            # The room that was held for it is free again.
            world.add_pod(make_pod("q").req(cpu="3"))
            await world.until(lambda: world.node_of("q") == "n1")

    scenario()


def is_of_p(binding: object) -> bool:
    return isinstance(binding, Binding) and binding.name == "p"


@in_virtual_time
async def test_room_held_for_a_pod_that_somebody_else_bound_elsewhere_goes_to_those_who_wait_for_it() -> None:
    async with World() as world:
        # Each try: one that is overdue is repeated.
        world.faults.add(FaultKind.SLOW, Verb.BIND, delay_s=20.0, matches=is_of_p)
        world.add_node("n1", cpu="4")
        world.add_pod(make_pod("p").req(cpu="3"))
        await world.sleep(1)
        world.add_pod(make_pod("q").req(cpu="3"))
        await world.until(lambda: world.condition("q") is not None)
        world.add_node(make_node("n2").capacity(cpu="4", memory="16Gi").taint("theirs"))
        await world.sleep(1)
        world.bind_elsewhere("p", "n2")
        await world.until(lambda: world.node_of("q") == "n1", within_s=11)  # a backoff


@in_virtual_time
async def test_a_conflict_is_counted() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_nodes(2)
        world.add_pod(make_pod("p").req(cpu="3"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        world.bind_elsewhere("p", "n0")
        await world.sleep(5)
        assert world.metrics.bind_conflicts_total.value == 1


@in_virtual_time
async def test_pods_deleted_while_they_are_queued_leave_no_trace() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_node("n1", cpu="100", memory="1Ti")
        for index in range(150):  # more than may be bound at once
            world.add_pod(make_pod(f"p{index}").req(cpu="100m"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        for index in range(0, 150, 3):
            world.cluster.delete_pod(f"default/p{index}")
        await world.until(world.all_bound)
        assert len(world.cluster.pods) == 100


@pytest.mark.parametrize("when_s", [BEFORE_IT_COUNTS_S, AFTER_IT_COUNTS_S])
def test_a_pod_deleted_while_its_binding_is_in_flight_gives_its_room_back(when_s: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(latency=SLOW_BINDS) as world:
            world.add_node("n1", cpu="1")
            world.add_pod(make_pod("p").req(cpu="1"))
            await world.sleep(when_s)
            world.cluster.delete_pod("default/p")
            world.add_pod(make_pod("q").req(cpu="1"))
            await world.until(world.all_bound)

    scenario()


@pytest.mark.parametrize("when_s", [BEFORE_IT_COUNTS_S, AFTER_IT_COUNTS_S])
def test_a_pod_recreated_under_its_name_while_the_first_is_bound_is_another_pod(when_s: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with World(latency=SLOW_BINDS) as world:
            world.add_nodes(2, cpu="2")
            first = world.add_pod(make_pod("p").req(cpu="2"))
            await world.sleep(when_s)
            world.cluster.delete_pod("default/p")
            second = world.add_pod(make_pod("p").req(cpu="1"))
            await world.until(world.all_bound)
            assert world.pod("p").metadata.uid == second.metadata.uid != first.metadata.uid
            assert world.judge.binds[second.metadata.uid] == 1

    scenario()


@in_virtual_time
async def test_a_pod_recreated_while_it_waits_is_judged_by_what_it_asks_for_now() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        world.add_pod(make_pod("p").req(cpu="3"))
        await world.until(lambda: world.condition("p") is not None)
        world.cluster.delete_pod("default/p")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound, within_s=1)


@in_virtual_time
async def test_a_pod_that_is_being_deleted_is_not_placed() -> None:
    async with World() as world:
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: world.condition("p") is not None)
        world.cluster.delete_pod("default/p", gracefully=True)
        world.add_node("n1")
        await world.sleep(30)
        assert not world.judge.decisions
        notes = [event.note for event in world.events("p")]
        assert "no nodes available to schedule pods" in notes
        world.cluster.delete_pod("default/p")


@in_virtual_time
async def test_a_pod_that_terminates_while_it_is_bound_is_given_up() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        world.cluster.delete_pod("default/p", gracefully=True)
        world.add_pod(make_pod("q").req(cpu="1"))
        await world.until(lambda: world.node_of("q") == "n1", within_s=30)
        await world.sleep(60)
        uid = world.pod("p").metadata.uid
        assert world.judge.decisions[uid] == 1


@in_virtual_time
async def test_a_pod_changed_while_its_binding_fails_is_judged_again_by_what_it_says_now() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_node("n1")
        world.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1)
        world.add_pod(make_pod("p"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        world.add_node(make_node("n2").capacity(cpu="4", memory="16Gi").label(zone="b"))
        world.change_pod("p", select(zone="b"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n2"


@in_virtual_time
async def test_a_toleration_added_to_a_waiting_pod_wakes_it() -> None:
    async with World() as world:
        world.add_node(make_node("n1").capacity(cpu="4", memory="16Gi").taint("key"))
        world.add_pod(make_pod("p"))
        await world.until(lambda: world.condition("p") is not None)
        await world.sleep(20)
        world.change_pod("p", tolerate("key"))
        await world.until(world.all_bound, within_s=1)


# --- nodes --------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_new_node_wakes_those_who_fit_nowhere() -> None:
    async with World() as world:
        world.add_node("n1", cpu="1")
        for index in range(20):
            world.add_pod(make_pod(f"p{index}").req(cpu="2"))
        await world.until(lambda: not world.unexplained())
        await world.sleep(40)
        world.add_node("n2", cpu="40", memory="64Gi")
        await world.until(world.all_bound, within_s=2)


@in_virtual_time
async def test_a_node_deleted_in_mid_run_gets_no_more_pods_and_its_return_counts_those_it_has() -> None:
    async with World() as world:
        world.add_nodes(2, cpu="2")
        for index in range(2):
            world.add_pod(make_pod(f"p{index}").req(cpu="1500m"))
        await world.until(world.all_bound)
        world.cluster.delete_node("n0")
        world.add_pod(make_pod("late").req(cpu="1"))
        await world.until(lambda: world.condition("late") is not None)
        world.add_node("n0", cpu="2")  # the pod that was there is still bound to it
        await world.sleep(20)
        assert not world.node_of("late")
        world.add_node("n2", cpu="2")
        await world.until(lambda: world.node_of("late") == "n2")


@in_virtual_time
async def test_a_node_that_vanishes_while_a_binding_to_it_is_in_flight_harms_nobody() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_node("n1")
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        world.cluster.delete_node("n1")
        await world.sleep(10)
        world.add_node("n2")
        world.add_pod(make_pod("q").req(cpu="1"))
        await world.until(lambda: world.node_of("q") == "n2")


@in_virtual_time
async def test_a_cordoned_node_gets_no_more_pods_until_it_is_opened() -> None:
    async with World() as world:
        world.add_node("n1")
        world.add_pod(make_pod("before"))
        await world.until(world.all_bound)
        world.change_node("n1", cordon())
        world.add_pod(make_pod("after"))
        await world.until(lambda: world.condition("after") is not None)
        await world.sleep(15)
        world.change_node("n1", cordon(False))
        await world.until(world.all_bound, within_s=2)


@in_virtual_time
async def test_a_tainted_node_gets_no_more_pods_until_the_taint_is_gone() -> None:
    async with World() as world:
        world.add_node("n1")
        await world.sleep(1)
        world.change_node("n1", taint())
        world.add_pod(make_pod("p"))
        await world.until(lambda: world.condition("p") is not None)
        await world.sleep(15)
        world.change_node("n1", taint(None))
        await world.until(world.all_bound, within_s=2)


@in_virtual_time
async def test_relabelled_nodes_take_the_pods_that_select_them_now() -> None:
    async with World() as world:
        world.add_nodes(2)
        world.change_node("n0", relabel(zone="a"))
        world.add_pod(make_pod("p0").node_selector(zone="a"))
        world.add_pod(make_pod("p1").node_selector(zone="b"))
        await world.until(lambda: world.node_of("p0") == "n0" and world.condition("p1") is not None)
        await world.sleep(15)
        world.change_node("n0", relabel(zone="b"))
        await world.until(lambda: world.node_of("p1") == "n0", within_s=2)


@in_virtual_time
async def test_a_node_that_shrinks_below_what_it_holds_gets_no_more_and_growth_is_used() -> None:
    async with World() as world:
        world.add_node("n1", cpu="4")
        world.add_pod(make_pod("p0").req(cpu="3"))
        await world.until(world.all_bound)
        world.change_node("n1", resize(cpu="2"))
        world.add_pod(make_pod("p1").req(cpu="500m"))
        await world.until(lambda: world.condition("p1") is not None)
        await world.sleep(15)
        world.change_node("n1", resize(cpu="8"))
        await world.until(world.all_bound, within_s=2)


@in_virtual_time
async def test_a_node_that_shrinks_while_a_binding_is_in_flight_may_be_overcommitted_by_that_pod_only() -> None:
    async with World(latency=SLOW_BINDS) as world:
        world.add_node("n1", cpu="4")
        world.add_pod(make_pod("p0").req(cpu="3"))
        await world.sleep(BEFORE_IT_COUNTS_S)
        world.change_node("n1", resize(cpu="2"))
        world.add_pod(make_pod("p1").req(cpu="500m"))
        await world.sleep(20)
        assert world.node_of("p0") == "n1"
        assert not world.node_of("p1")


@in_virtual_time
async def test_heartbeats_and_churn_of_other_nodes_do_not_disturb_waiting_pods() -> None:
    async with World() as world:
        world.add_nodes(5, cpu="1")
        world.add_pod(make_pod("p").req(cpu="2").node_selector(zone="a"))
        await world.until(lambda: world.condition("p") is not None)
        uid = world.pod("p").metadata.uid
        for beat in range(10):
            for index in range(5):
                world.change_node(f"n{index}", heartbeat(str(beat)))
            await asyncio.sleep(10)
        (queued,) = world.scheduler.queue.pending_pods()
        assert (queued.uid, queued.attempts) == (uid, 1)
