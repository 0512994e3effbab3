"""Claims, volumes and their conditions, short enough to stand in a test's first line."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import (
    EphemeralVolumeSource,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
)
from kscheduler.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeResources,
)
from kscheduler.testing import PodBuilder

EBS = "ebs.csi.aws.com"


def with_volumes(pod: PodBuilder, *volumes: Volume) -> PodBuilder:
    made = pod.obj()
    named = [volume if volume.name else replace(volume, name=f"v{i}") for i, volume in enumerate(volumes)]
    return PodBuilder(replace(made, spec=replace(made.spec, volumes=named)))


def with_claims(pod: PodBuilder, *names: str) -> PodBuilder:
    return with_volumes(pod, *map(of_claim, names))


def of_claim(name: str) -> Volume:
    return Volume(persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))


def ephemeral(name: str) -> Volume:
    return Volume(name=name, ephemeral=EphemeralVolumeSource())


def claim(
    name: str,
    volume: str = "",
    *,
    of_class: str | None = None,
    modes: tuple[str, ...] = (),
    namespace: str = "default",
    owner: Pod | None = None,
) -> PersistentVolumeClaim:
    """`owner`: the pod for which it was made."""
    owners = None if owner is None else [OwnerReference(kind="Pod", uid=owner.metadata.uid, controller=True)]
    return PersistentVolumeClaim(
        ObjectMeta(name=name, namespace=namespace, owner_references=owners),
        PersistentVolumeClaimSpec(access_modes=list(modes), volume_name=volume, storage_class_name=of_class),
    )


def csi_volume(name: str, driver: str = EBS, handle: str | None = None) -> PersistentVolume:
    source = CSIPersistentVolumeSource(driver, name if handle is None else handle)
    return PersistentVolume(ObjectMeta(name=name), PersistentVolumeSpec(csi=source))


def in_tree_volume(name: str, spec: PersistentVolumeSpec, **labels: str) -> PersistentVolume:
    return PersistentVolume(ObjectMeta(name=name, labels=labels), spec)


def labelled_volume(name: str, *pairs: str) -> PersistentVolume:
    return PersistentVolume(ObjectMeta(name=name, labels=dict(zip(pairs[::2], pairs[1::2], strict=True))))


def storage_class(name: str, provisioner: str = EBS, mode: str | None = "WaitForFirstConsumer") -> StorageClass:
    return StorageClass(ObjectMeta(name=name), provisioner, mode)


def csi_driver(name: str = EBS, *, must_be_there: bool | None = None) -> CSIDriver:
    """`must_be_there`: pods with volumes of the driver only go to nodes where it is installed."""
    return CSIDriver(ObjectMeta(name=name), CSIDriverSpec(prevent_pod_scheduling_if_missing=must_be_there))


def csi_node(name: str, limits: dict[str, int | None]) -> CSINode:
    """`limits`: driver -> how many volumes; None: it does not say."""
    drivers = [CSINodeDriver(driver, allocatable=VolumeNodeResources(count)) for driver, count in limits.items()]
    return CSINode(ObjectMeta(name=name), CSINodeSpec(drivers))


def attachment(name: str, node: str, volume: str | None, driver: str = EBS) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    return VolumeAttachment(ObjectMeta(name=name), VolumeAttachmentSpec(driver, node, source))
