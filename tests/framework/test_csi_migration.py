"""In-tree volumes under the names that their CSI drivers give them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kscheduler.api.objects import (
    ISCSI,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    ObjectMeta,
    PortworxVolume,
    Volume,
    VsphereVolume,
)
from kscheduler.api.storage import PersistentVolume, PersistentVolumeSpec
from kscheduler.api.topology_labels import BETA_ZONE, ZONE
from kscheduler.framework.csi_migration import (
    MIGRATED,
    NotTranslatable,
    is_migratable,
    kind_of,
    translate_inline,
    translate_volume,
)

EBS, DISK = "ebs.csi.aws.com", "disk.csi.azure.com"


def ebs(volume_id: str) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id))


@pytest.mark.parametrize(
    ("volume", "csi"),
    [
        (ebs("vol-1"), (EBS, "vol-1")),
        (ebs("anything"), (EBS, "anything")),
        (ebs("aws://eu-1a/vol-1"), (EBS, "vol-1")),
        (ebs("aws:///vol-1"), (EBS, "vol-1")),
        (ebs("aws://eu-1a/vol-%31?x=y#z"), (EBS, "vol-1")),
        (Volume(cinder=Cinder("c")), ("cinder.csi.openstack.org", "c")),
        (Volume(azure_disk=AzureDisk("name", "uri")), (DISK, "uri")),
        (Volume(azure_disk=AzureDisk("name", "uri", "managed")), (DISK, "uri")),
        (Volume(portworx_volume=PortworxVolume("p")), ("pxd.portworx.com", "p")),
        (
            Volume(gce_persistent_disk=GCEPersistentDisk("d")),
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ),
        (Volume(iscsi=ISCSI("portal")), None),
        (Volume(), None),
    ],
)
def test_a_volume_of_a_pod_as_its_csi_volume(volume: Volume, csi: tuple[str, str] | None) -> None:
    assert translate_inline(volume) == csi
    assert is_migratable(volume) == (csi is not None)


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        (ebs("aws://eu-1a/disk-1"), "Invalid format for AWS volume (aws://eu-1a/disk-1)"),
        (ebs("aws://eu-1a/vol-1/x"), "Invalid format for AWS volume (aws://eu-1a/vol-1/x)"),
        (ebs("aws://eu-1a"), "Invalid format for AWS volume (aws://eu-1a)"),
        (
            ebs("aws://eu-1a/vol-%zz"),
            'Invalid disk name (aws://eu-1a/vol-%zz): parse "aws://eu-1a/vol-%zz": invalid URL escape "%zz"',
        ),
        (ebs("aws://[/vol-1"), "Invalid disk name (aws://[/vol-1)"),
        (Volume(azure_disk=AzureDisk("name", "uri", "Dedicated")), "kind(Dedicated) is not supported in csi migration"),
    ],
)
def test_what_no_driver_would_know(volume: Volume, why: str) -> None:
    with pytest.raises(NotTranslatable) as raised:
        translate_inline(volume)
    assert why in str(raised.value)


def gce(labels: Mapping[str, str]) -> PersistentVolume:
    spec = PersistentVolumeSpec(gce_persistent_disk=GCEPersistentDisk("d"))
    return PersistentVolume(ObjectMeta(labels=dict(labels)), spec)


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: ""}, "zones/UNSPECIFIED"),
        ({ZONE: "us-east1-a"}, "zones/us-east1-a"),
        ({ZONE: "us-east1-a", BETA_ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({ZONE: "us-east1-a__us-east1-b"}, "regions/us-east1"),
        ({BETA_ZONE: "us-east1-a__us-east1-b"}, "regions/us-east1"),
    ],
)
def test_a_google_disk_is_zonal_or_regional_as_its_labels_say(labels: dict[str, str], place: str) -> None:
    assert translate_volume(gce(labels)) == ("pd.csi.storage.gke.io", f"projects/UNSPECIFIED/{place}/disks/d")


@pytest.mark.parametrize("zones", ["us-east1-a__us-west1-a", "here__us-east1-a", "a__b", "__"])
def test_a_google_disk_in_no_one_region_has_no_handle(zones: str) -> None:
    with pytest.raises(NotTranslatable):
        translate_volume(gce({ZONE: zones}))


def test_volumes_of_other_drivers_are_translated() -> None:
    def translated(**source: object) -> tuple[str, str] | None:
        return translate_volume(PersistentVolume(spec=PersistentVolumeSpec(**source)))  # type: ignore[arg-type]

    assert translated(aws_elastic_block_store=AWSElasticBlockStore("aws://a/vol-1")) == (EBS, "vol-1")
    assert translated(azure_disk=AzureDisk("name", "uri")) == (DISK, "uri")
    assert translated(cinder=Cinder("c")) == ("cinder.csi.openstack.org", "c")
    assert translated(portworx_volume=PortworxVolume("p")) == ("pxd.portworx.com", "p")
    assert translated() is None


def test_some_kinds_have_a_driver_and_are_not_counted() -> None:
    share, path = Volume(azure_file=AzureFile()), Volume(vsphere_volume=VsphereVolume())
    for volume, driver in ((share, "file.csi.azure.com"), (path, "csi.vsphere.vmware.com")):
        csi = translate_inline(volume)
        assert csi is not None
        assert csi.driver == driver
        assert is_migratable(volume)
        assert kind_of(volume) not in MIGRATED
