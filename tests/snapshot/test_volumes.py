"""What is known of volumes: found by what is asked for, and as assumed until the watch says something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import ObjectMeta, PersistentVolumeClaimSpec
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from kscheduler.errors import InternalError
from kscheduler.snapshot.volumes import Volumes


def volume(name: str = "pv", version: str = "1", of_class: str = "", phase: str = "") -> PersistentVolume:
    """`phase` distinguishes versions of ours from theirs."""
    metadata = ObjectMeta(name=name, resource_version=version)
    return PersistentVolume(metadata, PersistentVolumeSpec(storage_class_name=of_class), PersistentVolumeStatus(phase))


def claim(version: str = "1", bound_to: str = "") -> PersistentVolumeClaim:
    metadata = ObjectMeta(name="data", namespace="shop", resource_version=version)
    return PersistentVolumeClaim(metadata, PersistentVolumeClaimSpec(volume_name=bound_to))


def capacity(name: str, of_class: str) -> CSIStorageCapacity:
    return CSIStorageCapacity(ObjectMeta(name=name, namespace="kube-system"), storage_class_name=of_class)


def attachment(name: str, node: str) -> VolumeAttachment:
    return VolumeAttachment(ObjectMeta(name=name), VolumeAttachmentSpec("d", node))


@pytest.fixture
def volumes() -> Volumes:
    return Volumes()


def names(found: object) -> list[str]:
    return [item.metadata.name for item in found]  # type: ignore[attr-defined]


# --- assumptions --------------------------------------------------------------------------------------------------


def test_an_assumption_counts_until_it_is_taken_back(volumes: Volumes) -> None:
    theirs, ours = volume(of_class="fast"), volume(of_class="fast", phase="ours")
    volumes.set_volume(theirs)
    volumes.assume_volume(ours)
    assert volumes.volume("pv") is ours
    assert list(volumes.volumes_of_class("fast")) == [ours]
    assert volumes.reported_volume("pv") is theirs
    volumes.restore_volume(ours)
    assert volumes.volume("pv") is theirs
    assert list(volumes.volumes_of_class("fast")) == [theirs]


def test_a_claim_is_assumed_likewise(volumes: Volumes) -> None:
    theirs, ours = claim(), claim(bound_to="pv")
    volumes.set_claim(theirs)
    volumes.assume_claim(ours)
    assert volumes.claim("shop", "data") is ours
    assert volumes.reported_claim("shop", "data") is theirs
    volumes.restore_claim(ours)
    assert volumes.claim("shop", "data") is theirs
    assert volumes.claim("other", "data") is None


def test_a_report_of_another_version_ends_an_assumption(volumes: Volumes) -> None:
    volumes.set_volume(volume(version="5"))
    volumes.assume_volume(volume(version="5", phase="ours"))
    volumes.set_volume(volume(version="6", phase="theirs"))
    assert volumes.volume("pv") == volume(version="6", phase="theirs")


def test_the_same_version_reported_again_leaves_the_assumption(volumes: Volumes) -> None:
    volumes.set_volume(volume(version="5"))
    volumes.assume_volume(volume(version="5", phase="ours"))
    volumes.set_volume(volume(version="5"))
    assert volumes.volume("pv") == volume(version="5", phase="ours")


def test_an_assumption_ends_with_its_object(volumes: Volumes) -> None:
    volumes.set_claim(claim())
    volumes.assume_claim(claim(bound_to="pv"))
    volumes.remove_claim("shop", "data")
    assert volumes.claim("shop", "data") is None
    assert volumes.reported_claim("shop", "data") is None


def test_taking_back_an_old_assumption_leaves_a_newer_one(volumes: Volumes) -> None:
    old, new = volume(version="5", phase="first"), volume(version="6", phase="second")
    volumes.set_volume(volume(version="5"))
    volumes.assume_volume(old)
    volumes.set_volume(volume(version="6"))
    volumes.assume_volume(new)
    volumes.restore_volume(old)
    assert volumes.volume("pv") is new


def test_only_a_change_of_the_reported_version_can_be_assumed(volumes: Volumes) -> None:
    with pytest.raises(InternalError, match="persistent volume pv: expected one that is known"):
        volumes.assume_volume(volume())
    volumes.set_volume(volume(version="6"))
    for version in ("5", "7"):
        with pytest.raises(InternalError, match=f"pv is out of sync: known in version 6, .* {version}"):
            volumes.assume_volume(volume(version=version, phase="ours"))
    assert volumes.volume("pv") == volume(version="6")


# --- indexes ------------------------------------------------------------------------------------------------------


def test_volumes_are_found_by_class_in_the_order_of_their_reports(volumes: Volumes) -> None:
    for name, of_class in (("b", "fast"), ("a", "fast"), ("c", ""), ("d", "slow")):
        volumes.set_volume(volume(name, of_class=of_class))
    volumes.set_volume(volume("b", version="2", of_class="fast"))
    assert names(volumes.volumes_of_class("fast")) == ["b", "a"]
    assert names(volumes.volumes_of_class("")) == ["c"]
    assert names(volumes.volumes_of_class("none")) == []


def test_capacities_and_attachments_are_found_by_class_and_node(volumes: Volumes) -> None:
    volumes.set_capacity(capacity("x", "fast"))
    volumes.set_capacity(capacity("y", "slow"))
    volumes.set_attachment(attachment("a", "n1"))
    volumes.set_attachment(attachment("b", "n2"))
    assert names(volumes.capacities_of("fast")) == ["x"]
    assert names(volumes.attachments_of("n2")) == ["b"]
    volumes.set_capacity(capacity("x", "slow"))
    assert names(volumes.capacities_of("fast")) == []
    assert names(volumes.capacities_of("slow")) == ["y", "x"]
    volumes.remove_capacity("kube-system", "y")
    volumes.remove_attachment("b")
    assert names(volumes.capacities_of("slow")) == ["x"]
    assert names(volumes.attachments_of("n2")) == []


def test_classes_drivers_and_their_nodes_are_found_by_name(volumes: Volumes) -> None:
    volumes.set_storage_class(StorageClass(ObjectMeta(name="fast")))
    volumes.set_csi_driver(CSIDriver(ObjectMeta(name="d")))
    volumes.set_csi_node(CSINode(ObjectMeta(name="n1")))
    assert volumes.storage_class("fast") == StorageClass(ObjectMeta(name="fast"))
    assert volumes.csi_driver("d") == CSIDriver(ObjectMeta(name="d"))
    assert volumes.csi_node("n1") == CSINode(ObjectMeta(name="n1"))
    volumes.remove_storage_class("fast")
    volumes.remove_csi_driver("d")
    volumes.remove_csi_node("n1")
    assert (volumes.storage_class("fast"), volumes.csi_driver("d"), volumes.csi_node("n1")) == (None, None, None)


def test_what_is_unknown_can_be_removed(volumes: Volumes) -> None:
    volumes.remove_volume("none")
    volumes.remove_claim("none", "none")
    volumes.remove_storage_class("none")
    volumes.remove_capacity("none", "none")
    volumes.remove_attachment("none")


# (what to do, name, class): the index must always say what a look through everything would
_steps = st.lists(
    st.tuples(st.sampled_from(["set", "remove", "assume", "restore"]), st.sampled_from("abc"), st.sampled_from("xy"))
)


@given(_steps)
def test_the_index_by_class_is_what_a_look_through_all_volumes_finds(steps: list[tuple[str, str, str]]) -> None:
    volumes = Volumes()
    truth: dict[str, PersistentVolume] = {}  # name -> as it counts
    reported: dict[str, PersistentVolume] = {}
    for number, (action, name, of_class) in enumerate(steps):
        if action == "set":
            truth[name] = reported[name] = volume(name, version=str(number), of_class=of_class)
            volumes.set_volume(reported[name])
        elif action == "remove":
            truth.pop(name, None)
            reported.pop(name, None)
            volumes.remove_volume(name)
        elif name in reported:
            known = reported[name]
            ours = volume(name, known.metadata.resource_version, known.spec.storage_class_name, f"{number}")
            if action == "assume":
                volumes.assume_volume(ours)
            else:
                volumes.restore_volume(ours)
            truth[name] = ours if action == "assume" else known
    assert {name: volumes.volume(name) for name in truth} == truth
    for of_class in "xy":
        expected = sorted(name for name, item in truth.items() if item.spec.storage_class_name == of_class)
        found = list(volumes.volumes_of_class(of_class))
        assert sorted(names(found)) == expected
        assert all(truth[item.metadata.name] is item for item in found)


def test_listeners_hear_of_reports_and_not_of_assumptions() -> None:
    volumes = Volumes()
    noted: list[tuple[type, str]] = []
    volumes.watch(lambda kind, name: noted.append((kind, name)))
    volumes.set_volume(volume())
    volumes.set_claim(claim())
    volumes.set_storage_class(StorageClass(ObjectMeta(name="fast")))
    volumes.set_csi_node(CSINode(ObjectMeta(name="n")))
    reported = [(PersistentVolume, "pv"), (PersistentVolumeClaim, "shop/data"), (StorageClass, "fast"), (CSINode, "n")]
    assert noted == reported
    volumes.assume_volume(volume(phase="ours"))
    volumes.assume_claim(claim(bound_to="pv"))
    volumes.restore_volume(volume(phase="ours"))
    assert noted == reported
    volumes.remove_volume("pv")
    volumes.remove_claim("shop", "data")
    volumes.remove_storage_class("fast")
    volumes.remove_csi_node("n")
    assert noted == reported * 2


def test_listeners_hear_of_both_nodes_when_an_attachment_moves() -> None:
    volumes = Volumes()
    noted: list[str] = []
    volumes.watch(lambda kind, name: noted.append(name))
    volumes.set_attachment(attachment("a", "n1"))
    assert noted == ["n1"]
    volumes.set_attachment(attachment("a", "n2"))
    assert set(noted[1:]) == {"n1", "n2"}
    noted.clear()
    volumes.remove_attachment("a")
    volumes.remove_attachment("a")
    assert noted == ["n2"]
