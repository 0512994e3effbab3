"""What is placed where, in what order, and what is reported about it, when nothing goes wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from kscheduler.client.protocol import Binding
from kscheduler.config.load import default_config, parse_config
from kscheduler.simulator.cluster_client import Latency
from kscheduler.testing import make_node, make_pod
from tests.support.changes import open_gates, resize, set_pod_phase
from tests.support.world import World, in_virtual_time

TWO_PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  percentageOfNodesToScore: 50
  plugins:
    score:
      disabled: [{name: "*"}]
"""


@in_virtual_time
async def test_a_burst_is_placed_within_capacity_and_spread_evenly() -> None:
    async with World() as world:
        world.add_nodes(10, cpu="4", memory="16Gi")
        for index in range(300):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m", memory="200Mi"))
        await world.until(world.all_bound)
        per_node = Counter(pod.spec.node_name for pod in world.cluster.pods.values())
        assert set(per_node.values()) == {30}
        assert world.cluster.event_counts == {"Scheduled": 300}


@in_virtual_time
async def test_what_does_not_fit_waits_and_follows_when_room_is_made() -> None:
    async with World() as world:
        world.add_nodes(2, cpu="2", memory="4Gi")
        for index in range(5):
            world.add_pod(make_pod(f"p{index}").req(cpu="1"))
        await world.until(lambda: len(world.pending()) == 1)
        bound = next(pod for pod in world.cluster.pods.values() if pod.spec.node_name)
        await world.sleep(5)
        world.cluster.delete_pod(bound.key)
        await world.until(world.all_bound, within_s=12)


@in_virtual_time
async def test_pods_of_higher_priority_are_placed_first_whatever_the_order_they_came_in() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        for index, priority in enumerate([0, 5, 1000, 7, -3]):
            world.add_pod(make_pod(f"p{index}").req(cpu="1").priority(priority))
        await world.until(lambda: len(world.pending()) == 3)
        assert {pod.metadata.name for pod in world.cluster.pods.values() if pod.spec.node_name} == {"p2", "p3"}


@in_virtual_time
async def test_a_pod_of_high_priority_overtakes_those_that_wait_for_a_slow_apiserver() -> None:
    async with World(latency=Latency(bind_s=1.0)) as world:
        world.add_nodes(4, cpu="64", memory="256Gi")
        for index in range(200):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m"))
        await world.sleep(0.5)
        world.add_pod(make_pod("urgent").req(cpu="100m").priority(10))
        await world.until(lambda: bool(world.node_of("urgent")), within_s=3)
        assert len(world.pending()) > 50
        await world.until(world.all_bound)


@in_virtual_time
async def test_pods_of_other_schedulers_take_room_and_are_never_placed() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        world.add_pod(make_pod("theirs").req(cpu="1500m").scheduler_name("other"))
        world.add_pod(make_pod("theirs-too").req(cpu="100m").scheduler_name("other"))
        world.bind_elsewhere("theirs", "n1")
        world.add_pod(make_pod("ours").req(cpu="1"))
        await world.until(lambda: world.condition("ours") is not None)
        assert not world.node_of("ours")
        assert not world.node_of("theirs-too")
        assert not world.events("theirs-too")
        world.cluster.delete_pod("default/theirs")
        await world.until(lambda: world.node_of("ours") == "n1")


@in_virtual_time
async def test_finished_pods_give_their_room_back() -> None:
    async with World() as world:
        world.add_node("n1", cpu="1")
        world.add_pod(make_pod("job").req(cpu="1"))
        await world.until(world.all_bound)
        world.add_pod(make_pod("next").req(cpu="1"))
        await world.until(lambda: world.condition("next") is not None)
        set_pod_phase(world.cluster, "default/job", "Running")
        await world.sleep(1)
        assert not world.node_of("next")
        set_pod_phase(world.cluster, "default/job", "Succeeded")
        await world.until(world.all_bound, within_s=12)


@in_virtual_time
async def test_a_gated_pod_waits_untouched_until_its_last_gate_is_removed() -> None:
    async with World() as world:
        world.add_node("n1")
        world.add_pod(make_pod("p").scheduling_gate("example.com/a").scheduling_gate("example.com/b"))
        await world.sleep(30)
        assert world.scheduler.queue.counts().gated == 1
        world.change_pod("p", open_gates(left=1))
        await world.sleep(30)
        assert not world.judge.decisions
        world.change_pod("p", open_gates())
        await world.until(world.all_bound, within_s=1)


@in_virtual_time
async def test_each_profile_places_its_own_pods_on_the_same_nodes() -> None:
    async with World(config=parse_config(TWO_PROFILES)) as world:
        world.add_nodes(4, cpu="4")
        for index in range(20):
            name = "packing" if index % 2 else "default-scheduler"
            world.add_pod(make_pod(f"p{index}").req(cpu="500m").scheduler_name(name))
        world.add_pod(make_pod("stranger").scheduler_name("nobody"))
        await world.until(world.all_bound)
        assert not world.node_of("stranger")
        recorded_by = {event.regarding.name: event.reporting_controller for event in world.cluster.events}
        assert recorded_by == {f"p{index}": "packing" if index % 2 else "default-scheduler" for index in range(20)}


@pytest.mark.parametrize("percentage", [1, 10, 50, 99, 100])
def test_sampling_places_everything_that_fits(percentage: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        config = replace(default_config(), percentage_of_nodes_to_score=percentage)
        async with World(config=config) as world:
            world.add_nodes(250, cpu="1")
            for index in range(260):
                world.add_pod(make_pod(f"p{index}").req(cpu="1"))
            await world.until(lambda: len(world.pending()) == 10)

    scenario()


@in_virtual_time
async def test_a_pod_bound_long_ago_is_accounted_before_the_first_decision() -> None:
    async with World() as world:
        world.add_node("n1", cpu="2")
        old = world.add_pod(make_pod("old").req(cpu="1500m"))
        world.cluster.bind(Binding("default", "old", old.metadata.uid, "n1"))
        world.add_pod(make_pod("new").req(cpu="1"))
        await world.until(lambda: world.condition("new") is not None)
        assert not world.node_of("new")


# --- what is reported ---------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_bound_pod_has_one_scheduled_event_and_the_apiservers_condition() -> None:
    async with World() as world:
        world.add_node("n1")
        world.add_pod(make_pod("p", "shop").req(cpu="1"))
        await world.until(lambda: bool(world.cluster.events))
        (event,) = world.cluster.events
        assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")
        assert event.note == "Successfully assigned shop/p to n1"
        assert event.reporting_controller == "default-scheduler"
        assert event.regarding.uid == world.pod("shop/p").metadata.uid
        condition = world.condition("shop/p")
        assert condition is not None
        assert condition.status == "True"


@in_virtual_time
async def test_a_pod_that_fits_nowhere_has_the_reason_in_kube_schedulers_words() -> None:
    async with World() as world:
        world.add_node("small", cpu="1", memory="1Gi")
        world.add_node("tiny", cpu="1", memory="64Mi")
        world.add_node(make_node("closed").capacity(cpu="8", memory="32Gi").unschedulable())
        world.add_node(make_node("tainted").capacity(cpu="8", memory="32Gi").taint("gpu", "yes"))
        world.add_node(make_node("elsewhere").capacity(cpu="8", memory="32Gi").label(zone="b"))
        world.add_node("full", cpu="8", memory="32Gi", pods=0)
        pod = make_pod("p").req(cpu="2", memory="512Mi").node_affinity("zone", "NotIn", ["b"])
        world.add_pod(pod)
        expected = (
            "0/6 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) didn't match Pod's node "
            "affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. "
            "no new claims to deallocate, preemption: 0/6 nodes are available: "
            "1 No preemption victims found for incoming pod, 5 Preemption is not helpful for scheduling."
        )
        await world.until(lambda: world.condition("p") is not None)
        condition = world.condition("p")
        assert condition is not None
        assert (condition.status, condition.reason, condition.message) == ("False", "Unschedulable", expected)
        (event,) = world.events("p")
        assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
        assert event.note == expected


@in_virtual_time
async def test_without_nodes_pods_get_an_event_that_says_so_and_are_placed_when_one_comes() -> None:
    async with World() as world:
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(lambda: world.condition("p") is not None)
        (event,) = world.events("p")
        assert event.note == "no nodes available to schedule pods"
        await world.sleep(20)
        world.add_node("n1")
        await world.until(world.all_bound, within_s=12)


@in_virtual_time
async def test_repeated_failures_make_an_event_that_counts_and_one_condition() -> None:
    async with World() as world:
        world.add_node("n1", cpu="4")
        world.add_pod(make_pod("first").req(cpu="3"))
        await world.until(world.all_bound)
        world.add_pod(make_pod("p").req(cpu="2"))
        await world.until(lambda: world.condition("p") is not None)
        version = world.pod("p").metadata.resource_version
        for step in range(1, 6):
            await world.sleep(15)
            world.change_node("n1", resize(cpu=f"{4000 + 100 * step}m"))  # it grows, and stays too small
        await world.sleep(15)
        # One Event for the pod as it was at first, and one for the pod with its condition, which counts the rest.
        reported, counting = world.events("p", "FailedScheduling")
        assert reported.series is None
        series = counting.series
        assert series is not None
        assert series.count >= 2
        assert world.pod("p").metadata.resource_version == version
