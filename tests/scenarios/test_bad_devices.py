"""Classes, claims and slices that are wrong, enormous or restless: pods say why they wait, and nothing is stuck."""

from __future__ import annotations

import gc

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import Device, DeviceClass, ResourceSlice
from kscheduler.client.kinds import DEVICE_CLASSES, RESOURCE_SLICES
from kscheduler.config.releases import RELEASES, Release
from kscheduler.devices.slices import ParsedSlice
from tests.devices.building import (
    DRIVER,
    counter_set,
    device,
    devices,
    make_class,
    make_slice,
    request,
    selectors,
)
from tests.support.devices import TEMPLATE, DeviceWorld, gpu_pod, named_claim, template
from tests.support.world import in_virtual_time

BOTH = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
UNPARSABLE = "device.driver == "
ENDLESS = "lists.range(100000).distinct().size() > 0"  # its cost exceeds the limit
FAULTS = pytest.mark.parametrize(
    ("expression", "words"),
    [
        (UNPARSABLE, "compilation failed: ERROR: <input>:1:18: Syntax error: mismatched input '<EOF>'"),
        (ENDLESS, "actual cost limit exceeded"),
    ],
    ids=["unparsable", "endless"],
)


def with_partitions(*consumers: Device, **counters: str) -> list[ResourceSlice]:
    """The two slices of the pool n0: one with the counter set `gpu`, if it has counters, and one with the devices."""
    sets = [counter_set("gpu", **counters)] if counters else None
    shared = make_slice("n0-counters", node_name="n0", pool="n0", slices=2, generation=2, shared_counters=sets)
    return [shared, make_slice("n0", consumers, node_name="n0", pool="n0", slices=2, generation=2)]


def partition(name: str, memory: str, of: str = "gpu") -> Device:
    return device(name, consumes={of: {"memory": memory}})


def put(world: DeviceWorld, *slices: ResourceSlice) -> None:
    """Publish slices, in place of those of the same names."""
    for each in slices:
        known = world.cluster.store(RESOURCE_SLICES).objects.get(each.metadata.name)
        if known is None:
            world.add(each)
        else:
            world.cluster.update_object(replace(known, spec=each.spec))


def change_class(world: DeviceWorld, *expressions: str) -> None:
    known: DeviceClass = world.cluster.store(DEVICE_CLASSES).objects["gpu"]
    world.cluster.update_object(replace(known, spec=replace(known.spec, selectors=selectors(*expressions))))


# --- expressions --------------------------------------------------------------------------------------------------


@BOTH
@FAULTS
@in_virtual_time
async def test_a_class_with_a_bad_expression_is_an_error_until_it_is_mended(
    release: Release, expression: str, words: str
) -> None:
    async with DeviceWorld(release=release, nodes=1) as world:
        world.add(make_class("good"))
        world.add(template("good", request(device_class_name="good")))
        change_class(world, expression)
        world.add_pod(gpu_pod("bad"))
        world.add_pod(gpu_pod("good", templates=("good",)))
        await world.until(lambda: bool(world.message("bad")))
        assert words in world.message("bad")
        assert "class gpu: selector #0" in world.message("bad")
        await world.until(lambda: bool(world.node_of("good")))
        change_class(world)
        await world.until(world.all_bound, within_s=30)


@BOTH
@FAULTS
@in_virtual_time
async def test_a_claim_with_a_bad_expression_keeps_its_own_pod_only_from_being_placed(
    release: Release, expression: str, words: str
) -> None:
    async with DeviceWorld(release=release, nodes=1) as world:
        world.add(named_claim("c", request("req", 1, expression)))
        world.add_pod(gpu_pod("bad", "c"))
        await world.until(lambda: bool(world.message("bad")))
        assert words in world.message("bad")
        world.add_pod(gpu_pod("good"))
        await world.until(lambda: bool(world.node_of("good")), within_s=10)
        await world.sleep(120.0)
        assert not world.node_of("bad")
        world.cluster.delete_pod("default/bad")


# --- slices -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "slices",
    [
        [make_slice("n0", devices("g0", "g0"), node_name="n0", pool="n0", generation=2)],
        with_partitions(partition("g0", "1Gi")),
        with_partitions(partition("g0", "1Gi", of="none"), memory="8Gi"),
        with_partitions(partition("g0", "1Gi"), cores="8"),
    ],
    ids=["twins", "no counter set", "another counter set", "no such counter"],
)
@in_virtual_time
async def test_a_pool_that_is_invalid_keeps_pods_waiting_until_it_is_mended(
    release: Release, slices: list[ResourceSlice]
) -> None:
    release = release.with_gates({"DRAPartitionableDevices": True})
    async with DeviceWorld(release=release, nodes=2, gpus=1) as world:
        put(world, *slices)
        world.add_pod(gpu_pod("first"))
        await world.until(world.all_bound)
        assert world.node_of("first") == "n1"
        world.add_pod(gpu_pod("second"))
        await world.until(lambda: bool(world.message("second")))
        # With 1.36, counters of a pool concern the nodes that cannot use it, too.
        assert "invalid resource pools were encountered" in world.message("second")
        put(world, make_slice("n0", devices("g0"), node_name="n0", pool="n0", generation=3))
        await world.until(world.all_bound, within_s=20)
        assert world.node_of("second") == "n0"


@BOTH
@pytest.mark.parametrize(("memory", "placed"), [("-1Gi", 0), ("3Gi", 1), ("4Gi", 2)])
@in_virtual_time
async def test_no_more_of_a_counter_is_consumed_than_there_is(release: Release, memory: str, placed: int) -> None:
    release = release.with_gates({"DRAPartitionableDevices": True})
    async with DeviceWorld(release=release, nodes=1, gpus=0) as world:
        put(
            world,
            *with_partitions(partition("g0", "2Gi"), partition("g1", "2Gi"), partition("g2", "2Gi"), memory=memory),
        )
        for index in range(2):
            world.add_pod(gpu_pod(f"p{index}"))
        await world.sleep(20.0)
        assert len(world.all_taken()) == placed
        waiting = [f"p{index}" for index in range(2) if not world.node_of(f"p{index}")]
        assert all("cannot allocate all claims" in world.message(name) for name in waiting)
        put(world, *with_partitions(partition("g0", "2Gi"), partition("g1", "2Gi"), memory="4Gi"))
        await world.until(world.all_bound, within_s=20)


@BOTH
@in_virtual_time
async def test_an_amount_that_is_no_quantity_is_an_error_until_it_is_mended(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=0) as world:
        put(
            world,
            make_slice("n0", [device("g0", capacity={"memory": "much"})], node_name="n0", pool="n0", generation=2),
        )
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(world.message("p")))
        assert "ResourceSlice n0, device g0" in world.message("p")
        put(world, make_slice("n0", devices("g0"), node_name="n0", pool="n0", generation=3))
        await world.until(world.all_bound, within_s=30)


# --- devices that come and go -------------------------------------------------------------------------------------


@BOTH
@in_virtual_time
async def test_a_claim_whose_device_is_gone_stays_allocated_and_is_released_in_the_end(release: Release) -> None:
    """As with kube-scheduler: only the driver knows whether the device can still be used."""
    async with DeviceWorld(release=release, nodes=2, gpus=1) as world:
        world.add(named_claim("shared"))
        world.add_pod(gpu_pod("first", "shared"))
        await world.until(world.all_bound)
        node = world.node_of("first")
        put(world, make_slice(node, devices("new"), node_name=node, pool=node, generation=2))
        world.add_pod(gpu_pod("second", "shared"))
        await world.until(world.all_bound, within_s=10)
        for index in range(2):
            world.add_pod(gpu_pod(f"other{index}"))
        await world.until(world.all_bound, within_s=10)
        other = "n1" if node == "n0" else "n0"
        assert world.all_taken() == sorted([f"{node}/g0", f"{node}/new", f"{other}/g0"])
        for name in ("first", "second", "other0", "other1"):
            world.cluster.delete_pod(f"default/{name}")
        await world.sleep(1.0)
        assert world.all_taken() == []
        assert not world.scheduler.devices.allocated.devices


@BOTH
@in_virtual_time
async def test_a_pool_that_is_published_every_second_delays_no_pod_and_takes_no_memory(release: Release) -> None:
    """A virtual hour, in which a pod with a claim comes and goes every 20 seconds."""
    kept: list[int] = []
    async with DeviceWorld(release=release, nodes=2, gpus=2) as world:
        world.add(template("big", request("req", 1, f'device.driver == "{DRIVER}"')))
        for second in range(3600):
            put(world, make_slice("n0", devices("g0", "g1"), node_name="n0", pool="n0", generation=second + 2))
            if second % 20 == 0:
                world.add_pod(gpu_pod(f"p{second}", templates=("big" if second % 40 else TEMPLATE,)))
            if second % 20 == 10:
                assert world.node_of(f"p{second - 10}"), world.message(f"p{second - 10}")
                world.cluster.delete_pod(f"default/p{second - 10}")
            if second in (600, 3599):
                gc.collect()
                kept.append(sum(type(each) is ParsedSlice for each in gc.get_objects()))
            await world.sleep(1.0)
        assert len(world.scheduler.devices.slices) == 2
    assert kept[1] <= kept[0]


@in_virtual_time
async def test_what_devices_of_a_slice_have_in_common_is_held_once() -> None:
    async with DeviceWorld(nodes=1, gpus=0) as world:
        models = [device(f"g{index}", {"model": "a100"}) for index in range(2)]
        put(world, make_slice("n0", models, node_name="n0", pool="n0", generation=2))
        await world.sleep(1.0)
        [pool] = world.scheduler.devices.slices.pools_of(world.cluster.nodes["n0"]).pools
        first, second = (each.attributes["model"] for each in pool.devices)
        assert first is second
