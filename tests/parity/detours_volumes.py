"""Tells our side of a case's volumes, the long way round: what is assumed and restored, or different at first, leaves
no trace. See `detours`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kscheduler.api.decode import convert_object
from kscheduler.api.objects import APIStruct
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.snapshot.volumes import Volumes
from tests.parity.case import Object

DETOURS = 0.3  # of objects
KINDS: dict[str, tuple[type[APIStruct], Callable[[Volumes], Callable[..., None]]]] = {
    "storageClasses": (StorageClass, lambda volumes: volumes.set_storage_class),
    "persistentVolumes": (PersistentVolume, lambda volumes: volumes.set_volume),
    "persistentVolumeClaims": (PersistentVolumeClaim, lambda volumes: volumes.set_claim),
    "csiNodes": (CSINode, lambda volumes: volumes.set_csi_node),
    "csiDrivers": (CSIDriver, lambda volumes: volumes.set_csi_driver),
    "csiStorageCapacities": (CSIStorageCapacity, lambda volumes: volumes.set_capacity),
    "volumeAttachments": (VolumeAttachment, lambda volumes: volumes.set_attachment),
}  # the cluster's list -> what it holds, and who takes it


def mislead(volumes: Volumes, cluster: Mapping[str, Sequence[Object]], rng: random.Random) -> None:
    """Some objects, as they will not stay: each is another under its own name and in an older version."""
    for list_name, (kind, setter) in KINDS.items():
        documents = cluster.get(list_name, ())
        for document in documents:
            if rng.random() < DETOURS:
                setter(volumes)(convert_object(_dressed_as(document, rng.choice(documents)), kind))


def inform(volumes: Volumes, cluster: Mapping[str, Sequence[Object]], rng: random.Random) -> None:
    """All objects as they are. Some volumes and claims are assumed and restored on the way."""
    for list_name, (kind, setter) in KINDS.items():
        for document in cluster.get(list_name, ()):
            made = convert_object(document, kind)
            setter(volumes)(made)
            if rng.random() < DETOURS:
                _assume_and_restore(volumes, made)


def _assume_and_restore(volumes: Volumes, made: APIStruct) -> None:
    if isinstance(made, PersistentVolume):
        changed = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, claim_ref=None))
        volumes.assume_volume(changed)
        volumes.restore_volume(changed)
    elif isinstance(made, PersistentVolumeClaim):
        elsewhere = msgspec.structs.replace(made.metadata, annotations=None)
        claim = msgspec.structs.replace(made, metadata=elsewhere)
        volumes.assume_claim(claim)
        volumes.restore_claim(claim)


def _dressed_as(document: Object, other: Object) -> Object:
    kept = {key: document["metadata"][key] for key in ("name", "namespace", "uid") if key in document["metadata"]}
    return {**other, "metadata": {**other["metadata"], **kept, "resourceVersion": "1"}}
