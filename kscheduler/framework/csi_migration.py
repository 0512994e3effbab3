"""Translates in-tree volumes (such as awsElasticBlockStore) to the driver name and volume handle of their CSI drivers.

Names and handles are those of the CSI translation library of Kubernetes 1.36. Seven in-tree volume types have a CSI
successor; NodeVolumeLimits counts five of them, on nodes that have a CSINode: `MIGRATED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kscheduler.api.objects import AWSElasticBlockStore, AzureDisk, Volume
from kscheduler.api.storage import PersistentVolume
from kscheduler.api.topology_labels import BETA_ZONE, BETWEEN_ZONES, ZONE

_UNSPECIFIED = "UNSPECIFIED"


class NotTranslatable(Exception):
    """Raised for an in-tree volume without a counterpart in its CSI driver; the message is kube-scheduler's."""


class CSIVolume(NamedTuple):
    driver: str
    handle: str


@dataclass(frozen=True, slots=True)
class InTree:
    """An in-tree volume type. `source` is the name of its field in pods' volumes and in PersistentVolumes.

    The two functions return the CSI volume handle, and raise NotTranslatable.
    """

    source: str
    plugin: str
    driver: str
    inline_handle: Callable[[Volume], str]
    volume_handle: Callable[[PersistentVolume], str]


def is_migratable(volume: Volume) -> bool:
    """Return True if a pod's volume is of an in-tree type that a CSI driver has replaced."""
    return any(getattr(volume, kind.source) is not None for kind in IN_TREE)


def kind_of(item: Volume | PersistentVolume) -> InTree | None:
    holder = item.spec if isinstance(item, PersistentVolume) else item
    return next((kind for kind in IN_TREE if getattr(holder, kind.source) is not None), None)


def translate_inline(volume: Volume) -> CSIVolume | None:
    """Translate a volume of a pod's spec; None if its type is not in-tree. Raises NotTranslatable."""
    kind = kind_of(volume)
    return None if kind is None else CSIVolume(kind.driver, kind.inline_handle(volume))


def translate_volume(volume: PersistentVolume) -> CSIVolume | None:
    """Translate a PersistentVolume; None if its type is not in-tree. Raises NotTranslatable."""
    kind = kind_of(volume)
    return None if kind is None else CSIVolume(kind.driver, kind.volume_handle(volume))


# --- handles ---


def _ebs(source: AWSElasticBlockStore | None) -> str:
    """Return the EBS volume id `vol-1`, also from `aws://zone/vol-1`."""
    written = "" if source is None else source.volume_id
    if not written.startswith("aws://"):
        return written
    try:
        path = urlsplit(written).path
    except ValueError as error:
        raise _not_ebs(f'Invalid disk name ({written}): parse "{written}": {error}') from error
    wrong = re.search("%(?![0-9a-fA-F]{2}).{0,2}", path)
    if wrong:
        raise _not_ebs(f'Invalid disk name ({written}): parse "{written}": invalid URL escape "{wrong[0]}"')
    name = unquote(path).strip("/")
    if not re.fullmatch("vol-[^/]*", name):
        raise _not_ebs(f"Invalid format for AWS volume ({written})")
    return name


def _not_ebs(why: str) -> NotTranslatable:
    return NotTranslatable(f"failed to translate Kubernetes ID to EBS Volume ID {why}")


def _azure_disk(source: AzureDisk | None) -> str:
    if source is None:
        return ""
    if source.kind is not None and source.kind.lower() != "managed":
        raise NotTranslatable(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


def _gce_inline(volume: Volume) -> str:
    disk = volume.gce_persistent_disk
    return _gce_handle("zones", _UNSPECIFIED, disk.pd_name if disk else "")


def _gce_volume(volume: PersistentVolume) -> str:
    """Return the volume handle of a zonal or regional persistent disk of GCE."""
    disk, zones = volume.spec.gce_persistent_disk, gce_zones(volume)
    name = disk.pd_name if disk else ""
    if len(zones) > 1:
        return _gce_handle("regions", gce_region(zones), name)
    return _gce_handle("zones", zones[0] or _UNSPECIFIED, name)


def gce_zones(volume: PersistentVolume) -> list[str]:
    """Return the zones named by the PersistentVolume's zone label; [""] without it.

    Several zones mean a regional disk.
    """
    labels = volume.metadata.labels or {}
    return (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(BETWEEN_ZONES)


def _gce_handle(scope: str, place: str, name: str) -> str:
    return f"projects/{_UNSPECIFIED}/{scope}/{place}/disks/{name}"


def gce_region(zones: list[str]) -> str:
    """Return the region of zones: `us-east1` for us-east1-a and us-east1-b.

    Raises NotTranslatable if they share none.
    """
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise NotTranslatable(f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise NotTranslatable(f"multiple or no regions gotten from zones, got: map[{found}]")
    return regions.pop()


def _id_of(source: str) -> tuple[Callable[[Volume], str], Callable[[PersistentVolume], str]]:
    """Return the functions of an in-tree type whose field `source` states the handle, for both kinds of volumes."""
    return (
        lambda volume: str(getattr(volume, source).volume_id),
        lambda volume: str(getattr(volume.spec, source).volume_id),
    )


def _not_counted(volume: Volume | PersistentVolume) -> str:
    """Return "" as the volume handle, for in-tree types whose volumes are not counted: they need only the driver."""
    return ""


# The kinds whose migration is on. Where there is no CSINode it is off for all.
MIGRATED = (
    InTree("gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", _gce_inline, _gce_volume),
    InTree(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        lambda volume: _ebs(volume.aws_elastic_block_store),
        lambda volume: _ebs(volume.spec.aws_elastic_block_store),
    ),
    InTree("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", *_id_of("cinder")),
    InTree(
        "azure_disk",
        "kubernetes.io/azure-disk",
        "disk.csi.azure.com",
        lambda volume: _azure_disk(volume.azure_disk),
        lambda volume: _azure_disk(volume.spec.azure_disk),
    ),
    InTree("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com", *_id_of("portworx_volume")),
)
IN_TREE = (
    *MIGRATED,
    InTree("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", _not_counted, _not_counted),
    InTree("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", _not_counted, _not_counted),
)
BY_PLUGIN = {kind.plugin: kind for kind in IN_TREE}
