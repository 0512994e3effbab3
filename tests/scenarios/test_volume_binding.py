"""VolumeBinding in a whole scheduler: where pods with unbound claims go, what is written, and what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kscheduler.api.storage import BIND_COMPLETED, BOUND, SELECTED_NODE
from kscheduler.client.kinds import CSI_STORAGE_CAPACITIES
from kscheduler.scheduler import Options
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_pod
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
)
from tests.scenarios.storage_world import CSI, StorageWorld, pod, timing_out_after
from tests.support.world import in_virtual_time

# --- the ways of volumes ------------------------------------------------------------------------------------------


@in_virtual_time
async def test_pods_go_where_the_volumes_are_each_to_its_own() -> None:
    async with StorageWorld() as world:
        world.add_local_volumes()
        world.add_pods(3)
        await world.until(world.all_bound)
        for index in range(3):
            volume = world.volume(world.claim(f"c{index}").spec.volume_name)
            assert volume.metadata.name == world.node_of(f"p{index}").replace("n", "v")
            assert volume.status.phase == BOUND


@in_virtual_time
async def test_pods_without_a_volume_wait_until_one_comes() -> None:
    async with StorageWorld() as world:
        world.add_local_volumes(2)
        world.add_pods(3)
        await world.until(lambda: len(world.pending()) == 1)
        (left,) = world.pending()
        words = "node(s) didn't find available persistent volumes to bind"
        await world.until(lambda: world.is_reported(left.metadata.name, words))
        world.add(make_volume("v2", on={HOSTNAME: ["n2"]}))
        await world.until(world.all_bound)
        assert world.node_of(left.metadata.name) == "n2"


@in_virtual_time
async def test_a_volume_is_made_for_the_node_of_the_pod() -> None:
    async with StorageWorld() as world:
        world.add(make_class("zonal", CSI, "WaitForFirstConsumer", {"zone": ["z1"]}))
        world.add_pods(3, "zonal")
        await world.until(world.all_bound)
        for index in range(3):
            assert world.node_of(f"p{index}") == world.asked_for(f"c{index}") == "n1"
            assert BIND_COMPLETED in (world.claim(f"c{index}").metadata.annotations or {})


@in_virtual_time
async def test_a_claim_that_is_bound_at_once_leads_the_pod_to_its_volume() -> None:
    async with StorageWorld() as world:
        world.add(make_class("now", mode="Immediate"))
        world.add_pods(1, "now")
        await world.until(lambda: world.is_reported("p0", "pod has unbound immediate PersistentVolumeClaims"))
        world.add(make_volume("v", "now", on={"zone": ["z2"]}))
        await world.until(world.all_bound)
        assert world.node_of("p0") == "n2"


@in_virtual_time
async def test_a_pod_waits_for_its_claim() -> None:
    async with StorageWorld() as world:
        world.add_pod(pod("p", "c"))
        await world.until(lambda: world.is_reported("p", 'persistentvolumeclaim "c" not found'))
        world.add_local_volumes()
        world.add(make_claim("c"))
        await world.until(world.all_bound)


@in_virtual_time
async def test_a_pod_waits_for_room_in_storage() -> None:
    async with StorageWorld() as world:
        world.add(make_driver(CSI), make_capacity("k", "made", "1Mi", {"zone": "z1"}))
        world.add_pods(1, "made")
        await world.until(lambda: world.is_reported("p0", "node(s) did not have enough free storage"))
        grown = world.cluster.store(CSI_STORAGE_CAPACITIES).objects["kube-system/k"]
        world.cluster.update_object(replace(grown, capacity="10Gi"))
        await world.until(world.all_bound)
        assert world.node_of("p0") == "n1"


@in_virtual_time
async def test_pods_that_share_a_claim_share_its_node() -> None:
    async with StorageWorld() as world:
        world.add_local_volumes()
        world.add(make_claim("c"))
        for index in range(4):
            world.add_pod(pod(f"p{index}", "c"))
        await world.until(world.all_bound)
        name = world.claim("c").spec.volume_name.replace("v", "n")
        assert [world.node_of(f"p{index}") for index in range(4)] == [name] * 4


@in_virtual_time
async def test_more_pods_than_one_round_of_decisions_each_get_a_volume() -> None:
    async with StorageWorld() as world:
        for index in range(60):
            world.add(make_volume(f"v{index}", on={HOSTNAME: [f"n{index % 3}"]}, size=f"{index + 1}Gi"))
        world.add_pods(40)
        world.add(*(make_claim(f"d{index}", "made") for index in range(10)))
        for index in range(10):
            world.add_pod(pod(f"q{index}", f"d{index}"))
        await world.until(world.all_bound, within_s=120)
        taken = [world.claim(f"c{index}").spec.volume_name for index in range(40)]
        assert len(set(taken)) == 40


@in_virtual_time
async def test_pods_that_wait_for_their_volumes_hold_up_no_others() -> None:
    async with StorageWorld(controller=False, options=Options(bind_concurrency=2)) as world:
        world.add_pods(10, "made")
        await world.until(lambda: all(world.asked_for(f"c{index}") for index in range(10)), within_s=5)
        for index in range(10):
            world.add_pod(make_pod(f"plain{index}").req(cpu="100m"))
        await world.until(lambda: len(world.pending()) == 10, within_s=5)
        for index in range(10):
            world.cluster.delete_pod(f"default/p{index}")


# --- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_name", ["wait", "made"])
@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.CONFLICT,
        FaultKind.NOT_FOUND,
        FaultKind.SERVER_ERROR,
        FaultKind.TOO_MANY_REQUESTS,
        FaultKind.TIMEOUT,
        FaultKind.LOST_ANSWER,
        FaultKind.SLOW,
    ],
)
@in_virtual_time
async def test_a_pod_is_decided_again_after_a_write_that_fails(kind: FaultKind, class_name: str) -> None:
    async with StorageWorld() as world:
        world.faults.add(kind, {Verb.PATCH_VOLUME, Verb.PATCH_CLAIM}, count=2, delay_s=5.0)
        world.add_local_volumes()
        world.add_pods(3, class_name)
        await world.until(world.all_bound, within_s=120)
        assert world.faults.struck(kind) == 2
        assert len({world.claim(f"c{index}").spec.volume_name for index in range(3)}) == 3


@in_virtual_time
async def test_watches_that_are_late_delay_the_pod_and_no_more() -> None:
    async with StorageWorld() as world:
        world.faults.add(FaultKind.DELAYED, Verb.DELIVER, resource="persistentvolumes", delay_s=3.0)
        world.faults.add(FaultKind.DELAYED, Verb.DELIVER, resource="persistentvolumeclaims", delay_s=1.5)
        world.add_local_volumes()
        world.add_pods(3)
        await world.until(world.all_bound, within_s=120)


@in_virtual_time
async def test_a_pod_whose_volume_is_not_bound_in_time_is_decided_again() -> None:
    async with StorageWorld(controller=False, config=timing_out_after(5)) as world:
        world.add_pods(1, "made")
        await world.until(lambda: world.is_reported("p0", "binding volumes: context deadline exceeded"))
        node_name = world.asked_for()
        assert node_name
        await world.until(lambda: len(world.scheduler.bindings) == 1)  # tried again, for the same node
        world.start_controller()
        # The controller looks at what changes from now on.
        world.change_claim("c0", {**(world.claim().metadata.annotations or {}), "touched": "yes"})
        await world.until(world.all_bound)
        assert world.node_of("p0") == node_name


@in_virtual_time
async def test_a_provisioner_that_refuses_a_node_makes_the_pod_look_elsewhere() -> None:
    async with StorageWorld(controller=False) as world:
        world.add_pods(1, "made")
        await world.until(lambda: world.asked_for() != "")
        first = world.asked_for()
        world.change_claim("c0", {})
        world.change_node(first, lambda node: replace(node, spec=replace(node.spec, unschedulable=True)))
        await world.until(lambda: world.asked_for() not in ("", first))
        assert world.is_reported("p0", 'binding volumes: provisioning failed for PVC "c0"')
        second = world.asked_for()
        world.add(make_volume("v", "made", on={HOSTNAME: [second]}, claim="c0"))
        annotations = {SELECTED_NODE: second, BIND_COMPLETED: "yes"}
        world.change_claim("c0", annotations, volume_name="v")
        await world.until(world.all_bound)
        assert world.node_of("p0") == second


@in_virtual_time
async def test_a_volume_made_where_the_node_has_no_access_is_noticed() -> None:
    async with StorageWorld(controller=False) as world:
        world.add_pods(1, "made")
        await world.until(lambda: world.asked_for() != "")
        other = next(name for name in ("n0", "n1") if name != world.asked_for())
        world.add(make_volume("v", "made", on={HOSTNAME: [other]}, claim="c0"))
        world.change_claim("c0", {SELECTED_NODE: world.asked_for(), BIND_COMPLETED: "yes"}, volume_name="v")
        await world.until(world.all_bound)
        assert world.node_of("p0") == other


@in_virtual_time
async def test_a_pod_deleted_while_its_volume_is_made_is_let_go() -> None:
    async with StorageWorld(controller=False) as world:
        world.add_pods(1, "made")
        await world.until(lambda: world.asked_for() != "")
        world.cluster.delete_pod("default/p0")
        await world.until(lambda: not len(world.scheduler.bindings), within_s=5)
        assert not world.events("p0", "Scheduled")


@in_virtual_time
async def test_a_node_that_goes_while_a_volume_is_made_for_it() -> None:
    async with StorageWorld(controller=False) as world:
        world.add_pods(1, "made")
        await world.until(lambda: world.asked_for() != "")
        gone = world.asked_for()
        world.cluster.delete_node(gone)
        await world.until(lambda: not len(world.scheduler.bindings), within_s=5)
        await world.until(lambda: world.is_reported("p0", "node(s) didn't find available persistent volumes to bind"))
        world.change_claim("c0", {})  # as the volume controller does for a node that has gone
        await world.until(lambda: world.asked_for() not in ("", gone))
        await world.until(lambda: len(world.scheduler.bindings) == 1)
        world.cluster.delete_pod("default/p0")


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_with_any_faults_every_pod_gets_its_own_volumes_in_the_end(seed: int) -> None:
    async with StorageWorld(seed=seed) as world:
        writes: Sequence[Verb] = (Verb.PATCH_VOLUME, Verb.PATCH_CLAIM, Verb.BIND)
        for kind in (FaultKind.CONFLICT, FaultKind.SERVER_ERROR, FaultKind.LOST_ANSWER, FaultKind.SLOW):
            world.faults.add(kind, writes, probability=0.1, delay_s=2.0)
        world.faults.add(FaultKind.CUT, Verb.DELIVER, probability=0.05)
        world.add_local_volumes()
        world.add(*(make_volume(f"w{index}", on={"zone": [f"z{index % 3}"]}) for index in range(12)))
        for index in range(10):
            world.add(make_claim(f"c{index}"), make_claim(f"d{index}", "made"))
            world.add_pod(pod(f"p{index}", f"c{index}", f"d{index}"))
        await world.until(world.all_bound, within_s=900)
        world.faults.clear()
        assert len({world.claim(f"c{index}").spec.volume_name for index in range(10)}) == 10
        for index in range(10):
            assert world.asked_for(f"d{index}") == world.node_of(f"p{index}")
