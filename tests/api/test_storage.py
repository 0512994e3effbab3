"""Storage objects as the API writes them, and the small questions plugins ask of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.decode import convert_object
from kscheduler.api.objects import ObjectMeta, OwnerReference, Pod
from kscheduler.api.storage import (
    BETA_STORAGE_CLASS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    check_storage,
    claim_name_of,
    class_of,
    is_made_for,
)
from kscheduler.errors import DecodeError
from kscheduler.testing import make_pod


def volume(**spec: Any) -> PersistentVolume:
    return convert_object({"metadata": {"name": "pv"}, "spec": spec}, PersistentVolume)


def claim(metadata: dict[str, Any] | None = None, **spec: Any) -> PersistentVolumeClaim:
    document = {"metadata": {"name": "data", "namespace": "shop", **(metadata or {})}, "spec": spec}
    return convert_object(document, PersistentVolumeClaim)


def test_a_volume_is_read_under_the_names_of_the_api() -> None:
    read = volume(
        capacity={"storage": "10Gi"},
        accessModes=["ReadWriteOnce"],
        claimRef={"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "u"},
        storageClassName="fast",
        volumeMode="Block",
        nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}},
        csi={"driver": "d", "volumeHandle": "h"},
    )
    assert read.key == "pv"
    assert read.spec.claim_ref is not None
    assert (read.spec.claim_ref.namespace, read.spec.claim_ref.uid) == ("shop", "u")
    assert read.spec.node_affinity is not None
    assert read.spec.node_affinity.required is not None
    assert read.spec.csi is not None
    assert (read.spec.csi.driver, read.spec.csi.volume_handle) == ("d", "h")


def test_the_sources_whose_names_have_capitals_are_read() -> None:
    read = volume(
        awsElasticBlockStore={"volumeID": "aws://a/vol-1"},
        azureDisk={"diskName": "d", "diskURI": "/disk"},
        cinder={"volumeID": "c"},
        gcePersistentDisk={"pdName": "g", "readOnly": True},
        portworxVolume={"volumeID": "p"},
    ).spec
    assert read.aws_elastic_block_store is not None
    assert read.aws_elastic_block_store.volume_id == "aws://a/vol-1"
    assert read.azure_disk is not None
    assert read.azure_disk.disk_uri == "/disk"
    assert read.cinder is not None
    assert read.cinder.volume_id == "c"
    assert read.gce_persistent_disk is not None
    assert (read.gce_persistent_disk.pd_name, read.gce_persistent_disk.read_only) == ("g", True)
    assert read.portworx_volume is not None
    assert read.portworx_volume.volume_id == "p"


def test_what_drivers_say_is_read_under_the_names_of_the_api() -> None:
    drivers = [{"name": "d", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 25}}]
    node = convert_object({"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}, CSINode)
    (driver,) = node.spec.drivers
    assert (driver.node_id, driver.topology_keys) == ("i-1", ["zone"])
    assert driver.allocatable is not None
    assert driver.allocatable.count == 25
    assert convert_object({"spec": {"storageCapacity": True}}, CSIDriver).spec.storage_capacity is True
    attached = {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
    assert convert_object({"spec": attached}, VolumeAttachment).spec.source.persistent_volume_name == "pv"
    made = {
        "provisioner": "d",
        "volumeBindingMode": "Immediate",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    }
    (term,) = convert_object(made, StorageClass).allowed_topologies or []
    assert [(each.key, each.values) for each in term.match_label_expressions or ()] == [("zone", ["a"])]


# --- pods and their claims ----------------------------------------------------------------------------------------


def pod_with(volume: dict[str, Any]) -> Pod:
    document = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"volumes": [volume]}}
    return convert_object(document, Pod)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"persistentVolumeClaim": {"claimName": "data"}}, ("data", False)),
        ({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, ("web-v", True)),
        ({"emptyDir": {}}, ("", False)),
    ],
    ids=["named", "made for the pod", "none"],
)
def test_the_claim_behind_a_volume(source: dict[str, Any], expected: tuple[str, bool]) -> None:
    pod = pod_with({"name": "v", **source})
    (volume,) = pod.spec.volumes or []
    assert claim_name_of(pod, volume) == expected


def test_only_the_claim_its_pod_controls_is_made_for_it() -> None:
    pod = make_pod("web", "shop").uid("u1").obj()

    def owned(uid: str, controller: bool | None = True, namespace: str = "shop") -> PersistentVolumeClaim:
        owner = OwnerReference("v1", "Pod", "web", uid, controller=controller)
        return PersistentVolumeClaim(ObjectMeta(name="web-v", namespace=namespace, owner_references=[owner]))

    assert is_made_for(owned("u1"), pod)
    assert not is_made_for(owned("u0"), pod)  # of an earlier pod of that name
    assert not is_made_for(owned("u1", controller=None), pod)
    assert not is_made_for(owned("u1", namespace="other"), pod)
    assert not is_made_for(claim(), pod)


def test_the_beta_annotation_is_stronger_than_the_class_in_the_spec() -> None:
    assert class_of(claim()) == ""
    assert class_of(claim(storageClassName="fast")) == "fast"
    for beta in ("slow", ""):
        annotated = claim({"annotations": {BETA_STORAGE_CLASS: beta}}, storageClassName="fast")
        assert class_of(annotated) == beta
    bare = volume(storageClassName="fast")
    assert class_of(bare) == "fast"
    assert class_of(replace(bare, metadata=ObjectMeta(annotations={BETA_STORAGE_CLASS: "slow"}))) == "slow"


# --- sense --------------------------------------------------------------------------------------------------------


def test_sound_objects_have_no_faults() -> None:
    check_storage(volume(capacity={"storage": "10Gi"}))
    check_storage(volume())
    check_storage(claim(resources={"requests": {"storage": 1}}, selector={"matchLabels": {"a": "b"}}))
    check_storage(claim())
    check_storage(CSIStorageCapacity(capacity="1Ti", maximum_volume_size="1Gi"))
    check_storage(CSIStorageCapacity())


def test_what_cannot_be_read_is_named_with_its_field() -> None:
    with pytest.raises(DecodeError, match=r"spec\.capacity\[storage\]: .* got \"much\""):
        check_storage(volume(capacity={"storage": "much"}))
    with pytest.raises(DecodeError, match=r"spec\.resources\.requests\[storage\]: .* got \"much\""):
        check_storage(claim(resources={"requests": {"storage": "much"}}))
    with pytest.raises(DecodeError, match=r"spec\.selector\.matchExpressions\[0\]\.operator: .* got \"Like\""):
        check_storage(claim(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]}))
    with pytest.raises(DecodeError, match=r"maximumVolumeSize: .* got \"much\""):
        check_storage(CSIStorageCapacity(maximum_volume_size="much"))
