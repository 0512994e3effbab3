"""Pods as Kueue writes them: gated until it admits their workload, then sent to a flavor or to single hosts.

Kueue asks three things of a scheduler: to leave gated pods alone, to decide a pod at once when its last gate goes, and
to keep to the node selector that it has written by then. What a gang is, is its own affair, unless the pods name a
PodGroup as well.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.load import default_config
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from tests.scenarios.gangs import BY_LABEL, gang
from tests.support.world import World, in_virtual_time

ADMISSION, TOPOLOGY = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"
HOST, RACK, FLAVOR = "kubernetes.io/hostname", "example.com/rack", "example.com/gpu"
AT_ONCE_S = 0.5  # less than the shortest backoff, of a second


def add_racks(world: World) -> None:
    """Two racks of three nodes, of which the first has one kind of GPU and the second another."""
    for number in range(6):
        rack = number // 3
        node = (
            make_node(f"n{number}").label(HOST, f"n{number}").label(RACK, f"rack-{rack}").label(FLAVOR, f"gpu-{rack}")
        )
        world.add_node(node.capacity(cpu="4", memory="16Gi"))


def member(job: str, number: int, *gates: str, cpu: int = 2) -> PodBuilder:
    """A pod of a plain pod group of Kueue's, of four pods."""
    pod = make_pod(f"{job}-{number}").req(cpu=cpu).label("kueue.x-k8s.io/managed", "true")
    pod = pod.label("kueue.x-k8s.io/queue-name", "team-a").label("kueue.x-k8s.io/pod-group-name", job)
    pod = pod.annotation("kueue.x-k8s.io/pod-group-total-count", "4")
    for gate in gates:
        pod = pod.scheduling_gate(gate)
    return pod


def ungate(pod: Pod, gate: str, **selector: str) -> Pod:
    """What Kueue makes of a pod in one request: a gate less, and a node selector."""
    spec = pod.spec
    gates = [each for each in spec.scheduling_gates or () if each.name != gate]
    merged = {**(spec.node_selector or {}), **selector}
    return replace(pod, spec=replace(spec, scheduling_gates=gates or None, node_selector=merged or None))


def to_host(host: str) -> Callable[[Pod], Pod]:
    return lambda pod: ungate(pod, TOPOLOGY, **{RACK: "rack-1", HOST: host})


def to_host_by_affinity(host: str) -> Callable[[Pod], Pod]:
    """The same by a required node affinity, which an admission check may write."""

    def change(pod: Pod) -> Pod:
        affinity = make_pod("any").node_affinity_in(HOST, [host]).obj().spec.affinity
        pod = ungate(pod, TOPOLOGY)
        return replace(pod, spec=replace(pod.spec, affinity=affinity))

    return change


def placed(world: World, job: str) -> dict[str, str]:
    pods = [pod for pod in world.cluster.pods.values() if pod.metadata.name.startswith(f"{job}-")]
    return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}


def attempts(world: World) -> float:
    return sum(child.count for _, child in world.metrics.scheduling_attempt_duration_seconds.items())


@in_virtual_time
async def test_an_admitted_workload_is_bound_at_once_within_its_flavor() -> None:
    async with World() as world:
        add_racks(world)
        for number in range(4):
            world.add_pod(member("train", number, ADMISSION))
        await world.sleep(600)
        assert not placed(world, "train")
        assert attempts(world) == 0, "a gated pod is not looked at"
        for number in range(4):
            world.change_pod(f"train-{number}", lambda pod: ungate(pod, ADMISSION, **{FLAVOR: "gpu-1"}))
        await world.until(world.all_bound, within_s=AT_ONCE_S)
        assert set(placed(world, "train").values()) <= {"n3", "n4", "n5"}
        assert attempts(world) > 0


@pytest.mark.parametrize("send", [to_host, to_host_by_affinity])
@pytest.mark.parametrize("config", [default_config(), BY_LABEL], ids=["default", "with gangs"])
def test_pods_go_to_the_hosts_that_kueue_has_chosen(
    config: object, send: Callable[[str], Callable[[Pod], Pod]]
) -> None:
    @in_virtual_time
    async def play() -> None:
        async with World(config=config) as world:  # type: ignore[arg-type]
            add_racks(world)
            for number in range(4):
                world.add_pod(member("train", number, ADMISSION, TOPOLOGY))
            await world.sleep(60)
            for number in range(4):
                world.change_pod(f"train-{number}", lambda pod: ungate(pod, ADMISSION))
            await world.sleep(60)
            assert not placed(world, "train")
            assert attempts(world) == 0
            chosen = {"train-0": "n5", "train-1": "n5", "train-2": "n3", "train-3": "n4"}
            for name, host in chosen.items():
                world.change_pod(name, send(host))
            await world.until(world.all_bound, within_s=AT_ONCE_S)
            assert placed(world, "train") == chosen

    play()


@in_virtual_time
async def test_a_pod_whose_host_is_full_is_retried_there_when_it_has_room_and_goes_nowhere_else() -> None:
    async with World() as world:
        add_racks(world)
        world.add_pod(make_pod("before").req(cpu=4).node_selector(HOST, "n4"))
        await world.until(world.all_bound)
        world.add_pod(member("train", 0, TOPOLOGY))
        await world.sleep(60)
        world.change_pod("train-0", to_host("n4"))
        await world.sleep(60)
        condition = world.condition("train-0")
        assert condition is not None
        assert (condition.reason, condition.message[:35]) == ("Unschedulable", "0/6 nodes are available: 1 Insuffic")
        world.cluster.delete_pod("default/before")
        await world.until(world.all_bound, within_s=AT_ONCE_S)
        assert placed(world, "train") == {"train-0": "n4"}


@in_virtual_time
async def test_pods_of_kueue_that_name_a_podgroup_too_go_together_when_the_last_gate_goes() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world)
        world.cluster.create_object(gang("train", 4))
        for number in range(4):
            world.add_pod(member("train", number, ADMISSION, TOPOLOGY).label(POD_GROUP_LABEL, "train"))
        chosen = {"train-0": "n5", "train-1": "n5", "train-2": "n3", "train-3": "n4"}
        for number in range(4):
            world.change_pod(f"train-{number}", lambda pod: ungate(pod, ADMISSION))
        for name, host in list(chosen.items())[:3]:
            world.change_pod(name, to_host(host))
        await world.sleep(60)
        assert not placed(world, "train")
        world.change_pod("train-3", to_host(chosen["train-3"]))
        await world.until(world.all_bound, within_s=AT_ONCE_S)
        assert placed(world, "train") == chosen


@in_virtual_time
async def test_a_gang_beside_them_takes_the_room_that_they_do_not_have_yet() -> None:
    """Kueue counts by its quota what it admits; the scheduler holds no room for pods that are gated."""
    async with World(config=BY_LABEL) as world:
        add_racks(world)
        for number in range(4):
            world.add_pod(member("train", number, TOPOLOGY))
        world.cluster.create_object(gang("other", 2))
        for number in range(2):
            world.add_pod(
                make_pod(f"other-{number}").label(POD_GROUP_LABEL, "other").req(cpu=4).node_selector(RACK, "rack-1")
            )
        await world.until(lambda: len(placed(world, "other")) == 2)
        free = ({"n3", "n4", "n5"} - set(placed(world, "other").values())).pop()
        for number in range(2):
            world.change_pod(f"train-{number}", to_host(free))
        await world.until(lambda: len(placed(world, "train")) == 2, within_s=AT_ONCE_S)
        assert set(placed(world, "train").values()) == {free}


@in_virtual_time
async def test_a_workload_that_kueue_evicts_and_admits_again_is_bound_again() -> None:
    async with World(config=BY_LABEL) as world:
        add_racks(world)
        for host in ("n3", "n0"):
            for number in range(2):
                world.add_pod(member("train", number, TOPOLOGY))
            await world.sleep(5)
            for number in range(2):
                rack = "rack-1" if host == "n3" else "rack-0"
                world.change_pod(
                    f"train-{number}",
                    lambda pod, rack=rack, host=host: ungate(pod, TOPOLOGY, **{RACK: rack, HOST: host}),  # type: ignore[misc]
                )
            await world.until(world.all_bound, within_s=AT_ONCE_S)
            assert set(placed(world, "train").values()) == {host}
            for number in range(2):
                world.cluster.delete_pod(f"default/train-{number}")
            await world.sleep(1)
