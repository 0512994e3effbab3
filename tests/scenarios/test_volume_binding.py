"""VolumeBinding in a whole scheduler: where pods with unbound claims go, what is written, and what can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.storage import (
    BIND_COMPLETED,
    BOUND,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kscheduler.client.kinds import CSI_STORAGE_CAPACITIES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from kscheduler.config.load import default_config
from kscheduler.config.types import PluginConfig, SchedulerConfig, VolumeBindingArgs
from kscheduler.scheduler import Options
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.volume_controller import VolumeController
from kscheduler.testing import PodBuilder, make_node, make_pod
from tests.framework.plugins.volumebinding.objects import (
    HOSTNAME,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    pod_with,
)
from tests.support.world import World, in_virtual_time

CSI = "csi.example.com"


class StorageWorld(World):
    """With nodes n0 to n2 in zones z0 to z2, and the class `wait` for volumes that are there, `made` for others."""

    def __init__(self, *, controller: bool = True, **options: Any) -> None:
        super().__init__(**options)
        if controller:
            self.start_controller()
        for index in range(3):
            self.add_node(make_node(f"n{index}").label(zone=f"z{index}").capacity(cpu="4", memory="16Gi"))
        self.cluster.create_object(make_class())
        self.cluster.create_object(make_class("made", CSI))

    async def __aenter__(self) -> StorageWorld:
        return self

    def start_controller(self) -> None:
        VolumeController(self.cluster, asyncio.get_running_loop().call_soon)

    def add(self, *items: Any) -> None:
        """Storage objects; the cluster gives versions."""
        for item in items:
            self.cluster.create_object(replace(item, metadata=replace(item.metadata, resource_version="", uid="")))

    def add_local_volumes(self, count: int = 3, **options: Any) -> None:
        """Volume v<i> on node n<i>."""
        self.add(*(make_volume(f"v{index}", on={HOSTNAME: [f"n{index}"]}, **options) for index in range(count)))

    def add_pods(self, count: int, class_name: str = "wait") -> None:
        """Pod p<i> with claim c<i>."""
        for index in range(count):
            self.add(make_claim(f"c{index}", class_name))
            self.add_pod(pod(f"p{index}", f"c{index}"))

    def claim(self, name: str = "c0") -> PersistentVolumeClaim:
        return self._stored(PERSISTENT_VOLUME_CLAIMS, f"default/{name}")  # type: ignore[no-any-return]

    def volume(self, name: str = "v0") -> PersistentVolume:
        return self._stored(PERSISTENT_VOLUMES, name)  # type: ignore[no-any-return]

    def _stored(self, resource: Resource[Any], key: str) -> Any:
        return self.cluster.store(resource).objects[key]

    def is_reported(self, name: str, words: str) -> bool:
        condition = self.condition(name)
        return condition is not None and words in condition.message

    def asked_for(self, name: str = "c0") -> str:
        """The node that a claim's volume is to be made for."""
        return (self.claim(name).metadata.annotations or {}).get(SELECTED_NODE, "")

    def change_claim(self, name: str, annotations: dict[str, str], **spec: Any) -> None:
        """What another controller does; it keeps the status unless the claim is bound."""
        claim = self.claim(name)
        status = replace(claim.status, phase=BOUND) if spec else claim.status
        metadata = replace(claim.metadata, annotations=annotations)
        changed = replace(claim, metadata=metadata, spec=replace(claim.spec, **spec), status=status)
        self.cluster.update_object(changed)

    def check_state(self) -> None:
        super().check_state()
        self._check_assumptions()

    def _check_assumptions(self) -> None:
        """Nothing is assumed any more, and each bound pod has bound claims that its node can access."""
        known = self.scheduler.volumes
        for key in self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects:
            namespace, _, name = key.partition("/")
            assert known.claim(namespace, name) is known.reported_claim(namespace, name), key
        for name in self.cluster.store(PERSISTENT_VOLUMES).objects:
            assert known.volume(name) is known.reported_volume(name), name


def pod(name: str, *claims: str) -> PodBuilder:
    return pod_with(*claims, name=name).req(cpu="100m")


def timing_out_after(seconds: int) -> SchedulerConfig:
    config = default_config()
    entry = PluginConfig("VolumeBinding", VolumeBindingArgs(bind_timeout_seconds=seconds))
    profile = config.profiles[0]
    others = tuple(each for each in profile.plugin_config if each.name != "VolumeBinding")
    return replace(config, profiles=(replace(profile, plugin_config=(*others, entry)),))


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
