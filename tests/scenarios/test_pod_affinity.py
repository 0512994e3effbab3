"""Pods that want to be near each other, or apart, through whole lives of pods, nodes and namespaces."""

from __future__ import annotations

from collections import Counter

from kscheduler.testing import make_node, make_pod
from tests.support.world import World, in_virtual_time

HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}


@in_virtual_time
async def test_pods_apart_take_a_node_each_and_follow_when_one_goes_or_a_node_comes() -> None:
    async with World() as world:
        world.add_nodes(3)
        for index in range(5):
            world.add_pod(make_pod(f"p{index}").label(**WEB).pod_anti_affinity(HOST, WEB))
        await world.until(lambda: len(world.pending()) == 2)
        condition = world.condition(world.pending()[0].metadata.name)
        assert condition is not None
        expected = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. "
        assert condition.message.startswith(expected)
        gone = next(pod for pod in world.cluster.pods.values() if pod.spec.node_name)
        await world.sleep(5)
        world.cluster.delete_pod(gone.key)
        await world.until(lambda: len(world.pending()) == 1, within_s=12)
        await world.sleep(5)
        world.add_node("late")
        await world.until(world.all_bound, within_s=12)
        per_node = Counter(pod.spec.node_name for pod in world.cluster.pods.values())
        assert set(per_node.values()) == {1}


@in_virtual_time
async def test_a_series_gathers_in_the_zone_of_its_first_pod() -> None:
    async with World() as world:
        for index in range(6):
            world.add_node(make_node(f"n{index}").label(zone="ab"[index % 2]).capacity(cpu="4"))
        for index in range(12):
            world.add_pod(make_pod(f"p{index}").label(**WEB).pod_affinity("zone", WEB))
        await world.until(world.all_bound)
        used = {world.node_of(f"p{index}") for index in range(12)}
        zones = {(world.cluster.nodes[name].metadata.labels or {})["zone"] for name in used}
        assert len(zones) == 1


@in_virtual_time
async def test_a_pod_waits_for_the_one_it_requires_and_not_for_the_sweep() -> None:
    async with World() as world:
        world.add_nodes(3)
        world.add_pod(make_pod("follower").pod_affinity(HOST, WEB))
        await world.until(lambda: world.condition("follower") is not None)
        await world.sleep(5)
        world.add_pod(make_pod("leader").label(**WEB))
        await world.until(world.all_bound, within_s=12)
        assert world.node_of("follower") == world.node_of("leader")
