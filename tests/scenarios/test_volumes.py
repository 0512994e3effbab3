"""Pods with volumes, from the claim to the binding, with the volume controller at work and with faults in between."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import (
    EphemeralVolumeSource,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    ResourceRequirements,
    SelectorRequirement,
    Volume,
)
from kscheduler.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
)
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.volume_controller import VolumeController
from kscheduler.testing import PodBuilder, make_pod
from kscheduler.testing.wrappers import HOSTNAME
from tests.support.world import World, in_virtual_time

LOCAL, DISKS = "local", "disks"


class VolumeWorld(World):
    """With two nodes, a class of local volumes, a class of disks that are made, and who looks after them."""

    def __init__(self) -> None:
        super().__init__()
        VolumeController(self.cluster, asyncio.get_running_loop().call_soon)
        self.add_nodes(2)
        for name, provisioner in ((LOCAL, "kubernetes.io/no-provisioner"), (DISKS, "disk.example.com")):
            self.cluster.create_object(StorageClass(ObjectMeta(name=name), provisioner, WAIT_FOR_FIRST_CONSUMER))

    async def __aenter__(self) -> VolumeWorld:
        return self

    def add_volume(self, name: str, node: str, size: str = "1Gi") -> None:
        """A local volume."""
        term = NodeSelectorTerm(match_expressions=[SelectorRequirement(HOSTNAME, "In", [node])])
        spec = PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=["ReadWriteOnce"],
            storage_class_name=LOCAL,
            node_affinity=VolumeNodeAffinity(NodeSelector([term])),
        )
        self.cluster.create_object(PersistentVolume(ObjectMeta(name=name), spec))

    def add_claim(self, name: str, of_class: str = LOCAL, size: str = "1Gi") -> None:
        metadata = ObjectMeta(name=name, namespace="default")
        self.cluster.create_object(PersistentVolumeClaim(metadata, claim_spec(of_class, size)))

    def volume_of(self, claim: str) -> str:
        found: PersistentVolumeClaim = self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects[f"default/{claim}"]
        return found.spec.volume_name if found.status.phase == "Bound" else ""


def claim_spec(of_class: str = LOCAL, size: str = "1Gi") -> PersistentVolumeClaimSpec:
    resources = ResourceRequirements(requests={"storage": size})
    return PersistentVolumeClaimSpec(["ReadWriteOnce"], resources=resources, storage_class_name=of_class)


def with_claim(name: str, claim: str | None = None) -> PodBuilder:
    """A pod with a claim, by default of the pod's name."""
    return with_volume(name, Volume("v", PersistentVolumeClaimVolumeSource(claim or name)))


def with_volume(name: str, volume: Volume) -> PodBuilder:
    pod = make_pod(name).req(cpu="1").obj()
    return PodBuilder(replace(pod, spec=replace(pod.spec, volumes=[volume])))


@in_virtual_time
async def test_a_pod_goes_to_its_volume_and_the_volume_to_its_claim() -> None:
    async with VolumeWorld() as world:
        world.add_volume("pv", "n1")
        world.add_claim("p")
        world.add_pod(with_claim("p"))
        await world.until(world.all_bound)
        assert (world.node_of("p"), world.volume_of("p")) == ("n1", "pv")


@in_virtual_time
async def test_a_volume_is_made_for_the_node_of_the_pod() -> None:
    async with VolumeWorld() as world:
        world.add_claim("p", DISKS)
        world.add_pod(with_claim("p"))
        await world.until(world.all_bound)
        assert world.volume_of("p").startswith("pvc-")


@in_virtual_time
async def test_a_generic_ephemeral_volume_comes_with_its_pod() -> None:
    async with VolumeWorld() as world:
        template = PersistentVolumeClaimTemplate(spec=claim_spec(DISKS))
        world.add_pod(with_volume("p", Volume("v", ephemeral=EphemeralVolumeSource(template))))
        await world.until(world.all_bound)
        assert world.volume_of("p-v")


@in_virtual_time
async def test_no_two_pods_are_promised_the_same_volume() -> None:
    async with VolumeWorld() as world:
        for name in ("a", "b", "c"):
            world.add_claim(name)
            world.add_pod(with_claim(name))
        world.add_volume("pv-0", "n0")
        world.add_volume("pv-1", "n1")
        await world.until(lambda: len(world.pending()) == 1)
        bound = [name for name in ("a", "b", "c") if world.node_of(name)]
        assert sorted(world.volume_of(name) for name in bound) == ["pv-0", "pv-1"]


@in_virtual_time
async def test_a_pod_that_waits_for_a_claim_or_a_volume_is_woken_by_it() -> None:
    async with VolumeWorld() as world:
        world.add_pod(with_claim("p"))
        await world.until(lambda: world.condition("p") is not None)
        condition = world.condition("p")
        assert condition is not None
        assert 'persistentvolumeclaim "p" not found' in condition.message
        world.add_claim("p")
        await world.sleep(20)
        condition = world.condition("p")
        assert condition is not None
        assert "didn't find available persistent volumes to bind" in condition.message
        world.add_volume("pv", "n0")
        await world.until(world.all_bound, within_s=15)
        assert world.node_of("p") == "n0"


@pytest.mark.parametrize("kind", [FaultKind.CONFLICT, FaultKind.LOST_ANSWER, FaultKind.SERVER_ERROR])
@pytest.mark.parametrize("of_class", [LOCAL, DISKS])
def test_a_pod_is_decided_again_after_a_write_that_fails(kind: FaultKind, of_class: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with VolumeWorld() as world:
            world.faults.add(kind, {Verb.PATCH_VOLUME, Verb.PATCH_CLAIM}, count=1)
            world.add_volume("pv", "n1")
            world.add_claim("p", of_class)
            world.add_pod(with_claim("p"))
            await world.until(world.all_bound)
            assert world.faults.struck(kind) == 1
            assert world.volume_of("p")

    scenario()


@in_virtual_time
async def test_a_volume_that_cannot_be_read_is_nobodys_until_it_can() -> None:
    async with VolumeWorld() as world:
        world.add_volume("pv", "n0")
        world.add_claim("p")
        volumes: dict[str, PersistentVolume] = world.cluster.store(PERSISTENT_VOLUMES).objects
        await world.sleep(1)
        sound = volumes["pv"]
        world.cluster.update_object(replace(sound, spec=replace(sound.spec, capacity={"other": "much"})))
        await world.sleep(1)
        world.add_pod(with_claim("p"))
        await world.until(lambda: world.condition("p") is not None)
        assert world.metrics.informer_bad_objects_total.labels("persistentvolumes").value == 1
        world.cluster.update_object(replace(volumes["pv"], spec=sound.spec))
        await world.until(world.all_bound)
        assert world.volume_of("p") == "pv"


@in_virtual_time
async def test_what_is_known_of_volumes_is_what_the_cluster_has() -> None:
    async with VolumeWorld() as world:
        for number in range(6):
            world.add_claim(f"p{number}", DISKS if number % 2 else LOCAL)
            world.add_volume(f"pv{number}", f"n{number % 2}")
            world.add_pod(with_claim(f"p{number}"))
        await world.until(world.all_bound)
        await world.sleep(5)
        known = world.scheduler.volumes
        volumes: dict[str, PersistentVolume] = world.cluster.store(PERSISTENT_VOLUMES).objects
        claims: dict[str, PersistentVolumeClaim] = world.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects
        assert {name: known.volume(name) for name in volumes} == volumes
        assert {key: known.claim(*key.split("/")) for key in claims} == claims
