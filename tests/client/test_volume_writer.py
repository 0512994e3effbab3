"""Patches of volumes and claims: passed on by the replica that leads, and by no other."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kscheduler.client.volume_writer import VolumeWriter
from kscheduler.client.write_permission import WritePermission
from kscheduler.errors import Conflict, NotLeading
from kscheduler.simulator.cluster import Cluster
from tests.support.clocks import ManualClock

PATCH: dict[str, object] = {"metadata": {"annotations": {"a": "b"}}}


class Bench:
    def __init__(self) -> None:
        self.cluster = Cluster(ManualClock())
        self.volume: PersistentVolume = self.cluster.create_object(PersistentVolume(ObjectMeta(name="pv")))
        self.claim: PersistentVolumeClaim = self.cluster.create_object(
            PersistentVolumeClaim(ObjectMeta(name="data", namespace="shop"))
        )
        self.is_leader = True
        self.writer = VolumeWriter(self.cluster.client(), WritePermission(self))

    def patch_volume(self) -> PersistentVolume:
        return asyncio.run(self.writer.patch_volume("pv", self.volume.metadata.resource_version, PATCH))

    def patch_claim(self) -> PersistentVolumeClaim:
        return asyncio.run(self.writer.patch_claim("shop", "data", self.claim.metadata.resource_version, PATCH))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_patch_is_carried_out_and_answered_with_the_new_object(bench: Bench) -> None:
    volume, claim = bench.patch_volume(), bench.patch_claim()
    assert volume == bench.cluster.store(PERSISTENT_VOLUMES).objects["pv"]
    assert claim == bench.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects["shop/data"]
    assert volume.metadata.annotations == claim.metadata.annotations == {"a": "b"}


def test_a_patch_of_an_old_version_is_a_conflict_and_is_not_repeated(bench: Bench) -> None:
    bench.patch_volume()
    bench.patch_claim()
    bench.volume = PersistentVolume(ObjectMeta(name="pv", resource_version="1"))
    before = bench.cluster.version
    for patch in (lambda: bench.patch_volume(), lambda: bench.patch_claim()):
        with pytest.raises(Conflict, match="has been modified"):
            patch()
    assert bench.cluster.version == before


def test_who_does_not_lead_writes_nothing(bench: Bench) -> None:
    bench.is_leader = False
    before = bench.cluster.version
    with pytest.raises(NotLeading, match="persistent volume pv is not written"):
        bench.patch_volume()
    with pytest.raises(NotLeading, match="claim shop/data is not written"):
        bench.patch_claim()
    assert bench.cluster.version == before
