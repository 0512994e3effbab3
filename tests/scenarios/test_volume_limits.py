"""Pods that wait because of volumes others use: each is woken when it can go, and says until then why it waits."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import GCEPersistentDisk, Volume
from kscheduler.api.storage import PersistentVolume
from kscheduler.api.topology_labels import ZONE
from kscheduler.client.kinds import PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
from kscheduler.framework.plugins import volumezone
from kscheduler.framework.plugins.nodevolumelimits import plugin as nodevolumelimits
from kscheduler.framework.plugins.volumerestrictions import CLAIM_REASON, DISK_REASON, READ_WRITE_ONCE_POD
from kscheduler.testing import make_node, make_pod
from tests.support.storage import (
    EBS,
    attachment,
    claim,
    csi_node,
    csi_volume,
    with_claims,
    with_volumes,
)
from tests.support.world import World, in_virtual_time

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


class LimitedWorld(World):
    """With one node."""

    def __init__(self) -> None:
        super().__init__()
        self.add_node(make_node("n0").label(ZONE, "a").capacity(cpu="8", memory="8Gi"))

    async def __aenter__(self) -> LimitedWorld:
        self.start()
        return self

    def add_bound_claim(self, name: str, modes: tuple[str, ...] = ("ReadWriteOnce",), zone: str = "a") -> None:
        volume, labels = csi_volume(f"v-{name}"), {ZONE: zone}
        self.cluster.create_object(replace(volume, metadata=replace(volume.metadata, labels=labels)))
        bound = claim(name, f"v-{name}", modes=modes)
        self.cluster.create_object(replace(bound, metadata=replace(bound.metadata, annotations=BOUND)))

    async def until_waiting(self, name: str, reason: str) -> None:
        def waits() -> bool:
            condition = self.condition(name)
            return condition is not None and reason in condition.message

        await self.until(waits)

    def delete_pod(self, name: str) -> None:
        self.cluster.delete_pod(self.pod(name).key)


@in_virtual_time
async def test_a_claim_for_one_pod_goes_from_one_pod_to_the_next() -> None:
    async with LimitedWorld() as world:
        world.add_bound_claim("c", (READ_WRITE_ONCE_POD,))
        world.add_pod(with_claims(make_pod("one"), "c"))
        await world.until(world.all_bound)
        world.add_pod(with_claims(make_pod("two"), "c"))
        await world.until_waiting("two", CLAIM_REASON)
        world.delete_pod("one")
        await world.until(world.all_bound, within_s=15)


@in_virtual_time
async def test_a_disk_is_mounted_by_one_pod_after_another() -> None:
    async with LimitedWorld() as world:
        disk = Volume(gce_persistent_disk=GCEPersistentDisk("disk"))
        world.add_pod(with_volumes(make_pod("one"), disk))
        await world.until(world.all_bound)
        world.add_pod(with_volumes(make_pod("two"), disk))
        await world.until_waiting("two", DISK_REASON)
        world.delete_pod("one")
        await world.until(world.all_bound, within_s=15)


@in_virtual_time
async def test_a_full_node_takes_a_volume_when_its_limit_rises_or_an_attachment_goes() -> None:
    async with LimitedWorld() as world:
        limits = world.cluster.create_object(csi_node("n0", {EBS: 1}))
        for name in ("one", "two", "three"):
            world.add_bound_claim(name)
        world.add_pod(with_claims(make_pod("one"), "one"))
        await world.until(world.all_bound)
        world.add_pod(with_claims(make_pod("two"), "two"))
        await world.until_waiting("two", nodevolumelimits.REASON)
        world.cluster.update_object(replace(csi_node("n0", {EBS: 2}), metadata=limits.metadata))
        await world.until(world.all_bound, within_s=15)
        # The volume of a pod that has gone stays attached for a while.
        world.cluster.create_object(attachment("lingering", "n0", "v-two"))
        world.delete_pod("two")
        world.add_pod(with_claims(make_pod("three"), "three"))
        await world.until_waiting("three", nodevolumelimits.REASON)
        world.cluster.delete_object(VOLUME_ATTACHMENTS, "lingering")
        await world.until(world.all_bound, within_s=15)


@in_virtual_time
async def test_a_volume_that_moves_to_the_zone_of_the_node_lets_its_pod_go_there() -> None:
    async with LimitedWorld() as world:
        world.add_bound_claim("c", zone="b")
        world.add_pod(with_claims(make_pod("p"), "c"))
        await world.until_waiting("p", volumezone.REASON)
        there: PersistentVolume = world.cluster.store(PERSISTENT_VOLUMES).objects["v-c"]
        world.cluster.update_object(replace(there, metadata=replace(there.metadata, labels={ZONE: "a"})))
        await world.until(world.all_bound, within_s=15)
