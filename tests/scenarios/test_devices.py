"""DynamicResources in a whole scheduler: where pods with claims go, what is written, and what can go wrong."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocatedDeviceStatus,
    DeviceCondition,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.client.kinds import DEVICE_CLASSES, DEVICES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.config.duration import Duration
from kscheduler.config.releases import RELEASE_1_37, RELEASES, Release
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_pod
from tests.devices.building import (
    DRIVER,
    alternative,
    device,
    first_available,
    make_class,
    make_slice,
    request,
)
from tests.framework.plugins.dynamicresources.bench import allocation
from tests.scenarios.gangs import BY_LABEL, gang
from tests.support.devices import (
    GPU,
    TEMPLATE,
    DeviceWorld,
    backing,
    configured,
    gpu_pod,
    named_claim,
    template,
)
from tests.support.moving_families import values
from tests.support.world import in_virtual_time

BOTH = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())


@in_virtual_time
async def test_a_gang_whose_pods_share_a_claim_is_placed_whole() -> None:
    async with DeviceWorld(config=BY_LABEL) as world:
        world.add(named_claim("shared", request()))
        world.cluster.create_object(gang("g", 3))
        for index in range(3):
            world.add_pod(gpu_pod(f"p{index}", "shared").label(POD_GROUP_LABEL, "g"))
        await world.until(world.all_bound)
        assert len({world.pod(f"p{index}").spec.node_name for index in range(3)}) == 1
        assert len(world.claim("shared").status.reserved_for or ()) == 3


@BOTH
@in_virtual_time
async def test_pods_get_devices_for_claims_made_from_a_template(release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        for index in range(6):
            world.add_pod(gpu_pod(f"p{index}"))
        await world.until(world.all_bound)
        assert world.all_taken() == [f"n{node}/g{gpu}" for node in range(3) for gpu in range(2)]
        for index in range(6):
            assert world.devices_of(f"p{index}")[0].startswith(world.pod(f"p{index}").spec.node_name)


@BOTH
@in_virtual_time
async def test_pods_that_share_a_claim_share_its_node(release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        world.add(named_claim("shared"))
        for index in range(4):
            world.add_pod(gpu_pod(f"p{index}", "shared"))
        await world.until(world.all_bound)
        assert len({world.node_of(f"p{index}") for index in range(4)}) == 1
        assert len(world.claim("shared").status.reserved_for or ()) == 4


@BOTH
@in_virtual_time
async def test_pods_that_share_a_claim_wait_quietly_while_it_is_written(release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        world.add(named_claim("shared"))
        world.faults.add(FaultKind.SLOW, WRITES, delay_s=0.2)
        for index in range(4):
            world.add_pod(gpu_pod(f"p{index}", "shared"))
        await world.until(world.all_bound)
        assert len(world.claim("shared").status.reserved_for or ()) == 4
        assert not [each for index in range(4) for each in world.events(f"p{index}", "FailedScheduling")]


@BOTH
@in_virtual_time
async def test_a_pod_says_so_if_the_claim_that_it_shares_takes_long_to_be_written(release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        world.add(named_claim("shared"))
        world.faults.add(FaultKind.SLOW, WRITES, delay_s=2.0)
        for index in range(2):
            world.add_pod(gpu_pod(f"p{index}", "shared"))
        await world.until(lambda: "is in the process of being allocated" in world.message("p1"), within_s=2)
        await world.until(world.all_bound, within_s=30)


@BOTH
@in_virtual_time
async def test_a_pod_that_finds_no_device_says_so_and_gets_one_that_becomes_free(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=1) as world:
        world.add_pod(gpu_pod("first"))
        await world.until(world.all_bound)
        world.add_pod(gpu_pod("second"))
        await world.until(lambda: bool(world.message("second")))
        kept = "still not schedulable, " if release.version == "1.36" else ""
        assert world.message("second") == (
            f"0/1 nodes are available: 1 cannot allocate all claims. {kept}"
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        world.cluster.delete_pod("default/first")
        await world.until(world.all_bound, within_s=20)
        assert world.devices_of("second") == ["n0/g0"]


@BOTH
@in_virtual_time
async def test_a_pod_without_claims_has_the_releases_text(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1) as world:
        world.add_pod(make_pod("p").req(cpu="9"))
        await world.until(lambda: bool(world.message("p")))
        words = "no new claims to deallocate, " if release.version == "1.36" else ""
        assert world.message("p") == (
            f"0/1 nodes are available: 1 Insufficient cpu. {words}"
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )


@in_virtual_time
async def test_a_pod_waits_for_its_claim_its_class_and_a_slice() -> None:
    async with DeviceWorld(nodes=1, gpus=0) as world:
        for resource, key in ((DEVICE_CLASSES, "gpu"), (RESOURCE_SLICES, "n0")):
            world.cluster.delete_object(resource, key)
        world.add_pod(gpu_pod("p", "c"))
        await world.until(lambda: "could not find ResourceClaim" in gate_of(world, "p"))
        world.add(named_claim("c"))
        await world.until(lambda: "request req: device class gpu does not exist" in world.message("p"))
        world.add(make_class())
        await world.until(lambda: "cannot allocate all claims" in world.message("p"))
        world.publish("n0", 1)
        await world.until(world.all_bound, within_s=20)


def gate_of(world: DeviceWorld, name: str) -> str:
    """Why the plugin gates a waiting pod."""
    queued = world.scheduler.queue.get(world.pod(name).metadata.uid)
    if queued is None or queued.gated_by != "DynamicResources":
        return ""
    status = world.scheduler.profiles["default-scheduler"].run_pre_enqueue(queued.pod_info)
    return "" if status is None else status.message


@in_virtual_time
async def test_a_pod_whose_claim_is_made_late_is_woken_by_its_own_status() -> None:
    async with DeviceWorld() as world:
        world.add_pod(gpu_pod("p", templates=["late"]))
        await world.until(lambda: "ResourceClaim not created yet" in gate_of(world, "p"))
        await world.sleep(30)
        world.add(template("late", request()))
        await world.until(world.all_bound, within_s=5)


@in_virtual_time
async def test_earlier_alternatives_draw_a_pod_to_their_nodes() -> None:
    async with DeviceWorld(nodes=2, gpus=1) as world:
        world.publish("n9", 1)
        world.add_node("n9")
        slice_ = world.cluster.store(RESOURCE_SLICES).objects["n1"]
        two = replace(slice_.spec, devices=[device("g0"), device("g1")])
        world.cluster.update_object(replace(slice_, spec=two))
        world.add(template("best", first_available("r", alternative("two", 2), alternative("one", 1))))
        world.add_pod(gpu_pod("p", templates=["best"]))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n1"
        assert world.devices_of("p") == ["n1/g0", "n1/g1"]


@in_virtual_time
async def test_a_pod_of_higher_priority_takes_the_room_and_then_the_device() -> None:
    async with DeviceWorld(nodes=1, gpus=1) as world:
        world.run_kubelets()
        world.add_pod(gpu_pod("low").req(cpu="3").grace_period(1))
        await world.until(world.all_bound)
        world.add_pod(gpu_pod("high").req(cpu="3").priority(10))
        # No preemption can help with a device that is taken: kube-scheduler says so, too.
        await world.until(lambda: "cannot allocate all claims" in world.message("high"))
        assert "low" in {pod.metadata.name for pod in world.cluster.pods.values()}
        world.cluster.delete_pod("default/low")
        await world.until(world.all_bound, within_s=20)


@BOTH
@in_virtual_time
async def test_a_claim_that_no_node_can_use_is_deallocated_and_allocated_again(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=2, gpus=1) as world:
        world.add(named_claim("c"))
        world.add_pod(gpu_pod("first", "c"))
        await world.until(world.all_bound)
        where = world.node_of("first")
        world.cluster.delete_pod("default/first")
        await world.sleep(1)
        # As another scheduler leaves it: allocated for a node, and reserved for nobody.
        assert not world.devices_of("c")  # the controller has deallocated it
        world.change_claim("c", allocation=allocation(f"{where}/g0", zone="nowhere"))
        world.add_pod(gpu_pod("second", "c"))
        await world.until(world.all_bound, within_s=30)
        notes = [event.note for event in world.events("second", "FailedScheduling")]
        assert any("deallocation of ResourceClaim completed" in note for note in notes)
        assert world.devices_of("c")[0].startswith(world.node_of("second"))


@BOTH
@in_virtual_time
async def test_expressions_select_devices(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=2, gpus=1) as world:
        big = [device("g0", {"model": "a100"}, capacity={"memory": "80Gi"})]
        slice_ = world.cluster.store(RESOURCE_SLICES).objects["n1"]
        world.cluster.update_object(replace(slice_, spec=replace(slice_.spec, devices=big)))
        has_model = f"has(device.attributes['{DRIVER}'].model) && device.attributes['{DRIVER}'].model == 'a100'"
        memory = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"
        world.add(named_claim("c", request("req", 1, has_model, memory)))
        world.add_pod(gpu_pod("p", "c"))
        await world.until(world.all_bound)
        assert world.node_of("p") == "n1"
        world.add(named_claim("bad", request("req", 1, "device.drivers == 1")))
        world.add_pod(gpu_pod("fails", "bad"))
        await world.until(lambda: "undefined field 'drivers'" in world.message("fails"))
        world.cluster.delete_pod("default/fails")


# --- taints, conditions, extended resources -----------------------------------------------------------------------


@in_virtual_time
async def test_a_rule_taints_devices_until_it_is_gone() -> None:
    async with DeviceWorld(release=RELEASE_1_37, nodes=1, gpus=1) as world:
        taint = DeviceTaint("broken", "", "NoSchedule")
        world.add(DeviceTaintRule(ObjectMeta(name="r"), DeviceTaintRuleSpec(DeviceTaintSelector(pool="n0"), taint)))
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: "cannot allocate all claims" in world.message("p"))
        rules = next(each for each in DEVICES if each.kind == "DeviceTaintRule")
        world.cluster.delete_object(rules, "r")
        await world.until(world.all_bound, within_s=20)


def publish_conditional(world: DeviceWorld) -> None:
    needs = [
        device(f"g{index}", binding_conditions=["Ready"], binding_failure_conditions=["Broken"]) for index in (0, 1)
    ]
    world.add(make_slice("n0", needs, node_name="n0", pool="n0"))


def report(world: DeviceWorld, pod: str, **conditions: str) -> None:
    """What a driver writes about the device of a pod's claim."""
    claim = world.claim(pod)
    assert claim.status.allocation is not None
    result = (claim.status.allocation.devices.results or [])[0]
    found = [DeviceCondition(kind, status, "Why") for kind, status in conditions.items()]
    world.change_claim(pod, devices=[AllocatedDeviceStatus(DRIVER, result.pool, result.device, conditions=found)])


@BOTH
@in_virtual_time
async def test_a_pod_is_bound_when_its_device_is_ready(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=0) as world:
        world.cluster.delete_object(RESOURCE_SLICES, "n0")
        publish_conditional(world)
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(world.events("p", "BindingConditionsPending")))
        await world.sleep(60)
        assert not world.all_bound()
        report(world, "p", Ready="True")
        await world.until(world.all_bound, within_s=6)
        note = world.events("p", "BindingConditionsPending")[0].note
        assert note == "waiting for binding conditions for device on node n0"


@BOTH
@in_virtual_time
async def test_a_device_that_fails_is_given_up_for_another(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=0) as world:
        world.cluster.delete_object(RESOURCE_SLICES, "n0")
        publish_conditional(world)
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: bool(world.events("p", "BindingConditionsPending")))
        report(world, "p", Broken="True")
        await world.until(lambda: "device binding failed: claim=" in world.message("p"), within_s=10)

        def is_pending_again() -> bool:
            devices = world.claim("p").status.devices
            return devices is None and world.claim("p").status.allocation is not None

        await world.until(is_pending_again, within_s=60)
        report(world, "p", Ready="True")
        await world.until(world.all_bound, within_s=60)


@BOTH
@in_virtual_time
async def test_conditions_that_nobody_meets_time_out(release: Release) -> None:
    config = configured(release, binding_timeout=Duration.of_seconds(20))
    async with DeviceWorld(config=config, nodes=1, gpus=0) as world:
        world.cluster.delete_object(RESOURCE_SLICES, "n0")
        publish_conditional(world)
        world.add_pod(gpu_pod("p"))
        await world.until(lambda: "device binding timeout" in world.message("p"), within_s=30)
        world.cluster.delete_pod("default/p")


@BOTH
@in_virtual_time
async def test_extended_resources_are_backed_by_devices_where_nodes_have_none(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=2) as world:
        world.add_node("own", **{GPU: "1"})
        for index in range(3):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m", **{GPU: "1"}))
        await world.until(lambda: len(world.pending()) == 2)
        world.cluster.delete_object(DEVICE_CLASSES, "gpu")
        world.add(backing("gpu", GPU))
        await world.until(world.all_bound, within_s=30)
        by_devices = [pod for pod in world.cluster.pods.values() if pod.spec.node_name == "n0"]
        assert len(by_devices) == 2
        for pod in by_devices:
            status = pod.status.extended_resource_claim_status
            assert status is not None
            claim = world.claim(status.resource_claim_name)
            assert status.resource_claim_name.startswith(f"{pod.metadata.name}-extended-resources-")
            assert [each.uid for each in claim.status.reserved_for or ()] == [pod.metadata.uid]
        assert len(world.claims) == 2
        created = values(world.metrics.exposition().decode())
        assert sum(count for series, count in created.items() if "_resourceclaim_creates_total" in series) == 2


# --- what goes wrong ----------------------------------------------------------------------------------------------

WRITES = {Verb.PATCH_RESOURCE_CLAIM, Verb.PATCH_RESOURCE_CLAIM_STATUS}


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.CONFLICT,
        FaultKind.NOT_FOUND,
        FaultKind.SERVER_ERROR,
        FaultKind.TIMEOUT,
        FaultKind.LOST_ANSWER,
        FaultKind.SLOW,
    ],
)
@BOTH
@in_virtual_time
async def test_a_write_that_fails_is_decided_again(kind: FaultKind, release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        world.faults.add(kind, WRITES, count=2, delay_s=5.0)
        for index in range(6):
            world.add_pod(gpu_pod(f"p{index}"))
        await world.until(world.all_bound, within_s=120)
        assert world.faults.struck(kind) == 2
        assert len(world.all_taken()) == 6


@BOTH
@in_virtual_time
async def test_devices_of_an_allocation_whose_answer_is_lost_are_given_to_nobody_else(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1) as world:
        world.add(named_claim("one"), named_claim("other"))
        await world.sleep(1.0)
        world.faults.add(FaultKind.LOST_ANSWER, {Verb.PATCH_RESOURCE_CLAIM_STATUS}, count=1)
        world.faults.add(FaultKind.DELAYED, {Verb.DELIVER}, resource=RESOURCE_CLAIMS.plural, count=2, delay_s=5.0)
        for name in ("one", "other"):
            world.add_pod(gpu_pod(f"pod-of-{name}", name))
            await world.sleep(0.5)
        await world.until(world.all_bound, within_s=60)
        assert world.faults.struck(FaultKind.LOST_ANSWER) == 1
        assert world.all_taken() == ["n0/g0", "n0/g1"]


@BOTH
@in_virtual_time
async def test_a_claim_that_is_made_again_while_its_write_is_slow_gets_devices_of_its_own(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1) as world:
        world.add(named_claim("c"))
        world.faults.add(FaultKind.CONFLICT, {Verb.PATCH_RESOURCE_CLAIM_STATUS}, count=1)
        world.faults.add(FaultKind.SLOW, {Verb.PATCH_RESOURCE_CLAIM}, count=1, delay_s=3.0)
        world.add_pod(gpu_pod("p", "c"))
        await world.sleep(1.0)
        world.cluster.delete_claim("default/c")
        world.add(named_claim("c", request(count=2)))
        await world.until(world.all_bound, within_s=60)
        assert world.devices_of("c") == ["n0/g0", "n0/g1"]


@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.LOST_ANSWER])
@BOTH
@in_virtual_time
async def test_a_binding_that_fails_gives_the_reservation_back(kind: FaultKind, release: Release) -> None:
    async with DeviceWorld(release=release) as world:
        world.faults.add(kind, {Verb.BIND}, count=3)
        world.faults.add(FaultKind.SERVER_ERROR, {Verb.RELEASE_RESOURCE_CLAIM}, count=1)
        for index in range(6):
            world.add_pod(gpu_pod(f"p{index}"))
        await world.until(world.all_bound, within_s=120)
        assert len(world.all_taken()) == 6


@BOTH
@in_virtual_time
async def test_claims_for_extended_resources_survive_faults_of_all_their_writes(release: Release) -> None:
    async with DeviceWorld(release=release, nodes=1, gpus=2) as world:
        world.cluster.delete_object(DEVICE_CLASSES, "gpu")
        world.add(backing("gpu", GPU))
        for verb in (*sorted(WRITES, key=lambda each: each.value), Verb.CREATE_RESOURCE_CLAIM, Verb.PATCH_STATUS):
            world.faults.add(FaultKind.SERVER_ERROR, {verb}, count=1)
        for index in range(2):
            world.add_pod(make_pod(f"p{index}").req(cpu="100m", **{GPU: "1"}))
        await world.until(world.all_bound, within_s=900)
        assert world.all_taken() == ["n0/g0", "n0/g1"]
        assert len(world.claims) == 2


@in_virtual_time
async def test_an_apiserver_that_does_not_serve_the_kinds_is_one_without_such_objects() -> None:
    async with DeviceWorld(controller=False) as world:
        for resource in DEVICES:
            world.faults.add(FaultKind.NO_SUCH_PATH, {Verb.LIST, Verb.WATCH}, resource=resource.plural)
        world.add_pod(make_pod("p").req(cpu="1"))
        await world.until(world.all_bound)
        world.add_pod(gpu_pod("waits", "c"))
        await world.until(lambda: "could not find ResourceClaim" in gate_of(world, "waits"))
        world.faults.clear()
        world.add(named_claim("c"))
        await world.until(world.all_bound, within_s=300)


@in_virtual_time
async def test_a_claim_that_is_deleted_while_its_pod_is_bound_fails_the_binding_only() -> None:
    async with DeviceWorld(nodes=1) as world:
        world.add(named_claim("c"))
        world.faults.add(FaultKind.SLOW, WRITES, count=1, delay_s=3.0)
        world.add_pod(gpu_pod("p", "c"))
        await world.sleep(1)
        world.cluster.delete_claim("default/c")
        await world.until(lambda: "could not find ResourceClaim" in gate_of(world, "p"), within_s=30)
        world.add(named_claim("c"))
        await world.until(world.all_bound, within_s=30)


@in_virtual_time
async def test_many_pods_with_claims_are_bound_under_random_faults() -> None:
    async with DeviceWorld(nodes=4, gpus=8, seed=5) as world:
        world.faults.add(FaultKind.CONFLICT, WRITES, probability=0.2)
        world.faults.add(FaultKind.SERVER_ERROR, {*WRITES, Verb.BIND}, probability=0.1)
        world.faults.add(FaultKind.LOST_ANSWER, {*WRITES, Verb.BIND}, probability=0.1)
        for index in range(32):
            world.add_pod(gpu_pod(f"p{index}").req(cpu="100m"))
        await world.until(world.all_bound, within_s=900)
        assert len(world.all_taken()) == 32
        assert TEMPLATE in (world.pod("p0").spec.resource_claims or [])[0].name
        await asyncio.sleep(0)
