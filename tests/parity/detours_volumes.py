"""Tells our side of a case's volumes, the long way round: what is assumed and restored, was different, or is gone,
leaves no trace. See `detours`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
from tests.parity.generate_volumes import CLAIMS, DRIVERS, PROVISIONERS
from tests.parity.words import NAMESPACES

DETOURS = 0.3  # of objects


@dataclass(frozen=True, slots=True)
class _Kind:
    made: type[APIStruct]
    set: Callable[[Volumes], Callable[..., None]]
    remove: Callable[[Volumes], Callable[..., None]]  # takes a name, or a namespace and a name
    asked: Callable[[Mapping[str, Sequence[Object]]], Sequence[tuple[str, ...]]]  # what may be looked for in a cluster


KINDS = {  # the cluster's list -> what it holds
    "storageClasses": _Kind(
        StorageClass,
        lambda volumes: volumes.set_storage_class,
        lambda volumes: volumes.remove_storage_class,
        lambda cluster: [(name,) for name in (*PROVISIONERS, "missing")],
    ),
    "persistentVolumes": _Kind(
        PersistentVolume,
        lambda volumes: volumes.set_volume,
        lambda volumes: volumes.remove_volume,
        lambda cluster: [("nowhere",), ("former",)],
    ),
    "persistentVolumeClaims": _Kind(
        PersistentVolumeClaim,
        lambda volumes: volumes.set_claim,
        lambda volumes: volumes.remove_claim,
        lambda cluster: [(namespace, name) for namespace in NAMESPACES for name in CLAIMS],
    ),
    "csiNodes": _Kind(
        CSINode,
        lambda volumes: volumes.set_csi_node,
        lambda volumes: volumes.remove_csi_node,
        lambda cluster: [(node["metadata"]["name"],) for node in cluster.get("nodes", ())],
    ),
    "csiDrivers": _Kind(
        CSIDriver,
        lambda volumes: volumes.set_csi_driver,
        lambda volumes: volumes.remove_csi_driver,
        lambda cluster: [(name,) for name in DRIVERS],
    ),
    "csiStorageCapacities": _Kind(
        CSIStorageCapacity,
        lambda volumes: volumes.set_capacity,
        lambda volumes: volumes.remove_capacity,
        lambda cluster: [("kube-system", "former")],
    ),
    "volumeAttachments": _Kind(
        VolumeAttachment,
        lambda volumes: volumes.set_attachment,
        lambda volumes: volumes.remove_attachment,
        lambda cluster: [("former",), ("old",)],
    ),
}


def mislead(volumes: Volumes, cluster: Mapping[str, Sequence[Object]], rng: random.Random) -> None:
    """Some objects as they will not stay, each like another one of its kind, and some that will not stay at all."""
    for list_name, kind in KINDS.items():
        documents = cluster.get(list_name, ())
        known = {_name(document) for document in documents}
        for name in [*map(_name, documents), *(name for name in kind.asked(cluster) if name not in known)]:
            if documents and rng.random() < DETOURS:
                kind.set(volumes)(convert_object(_like(rng.choice(documents), name), kind.made))


def inform(volumes: Volumes, cluster: Mapping[str, Sequence[Object]], rng: random.Random) -> None:
    """All objects as they are, and no others. Some volumes and claims are assumed and restored on the way."""
    for list_name, kind in KINDS.items():
        documents = cluster.get(list_name, ())
        known = {_name(document) for document in documents}
        for name in kind.asked(cluster):
            if documents and name not in known:
                kind.remove(volumes)(*name)
        for document in documents:
            made = convert_object(document, kind.made)
            kind.set(volumes)(made)
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


def _name(document: Object) -> tuple[str, ...]:
    """(name,), or (namespace, name)."""
    metadata = document["metadata"]
    return (metadata["namespace"], metadata["name"]) if "namespace" in metadata else (metadata["name"],)


def _like(document: Object, name: tuple[str, ...]) -> Object:
    """The object under another name, in an older version."""
    metadata = {**document["metadata"], "name": name[-1], "uid": "-".join(name), "resourceVersion": "1"}
    if len(name) > 1:
        metadata["namespace"] = name[0]
    return {**document, "metadata": metadata}
