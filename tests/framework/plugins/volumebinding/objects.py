"""Volumes, claims, classes and capacities for tests, and pods that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import (
    EphemeralVolumeSource,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    ResourceRequirements,
    SelectorRequirement,
    Volume,
)
from kscheduler.api.storage import (
    AVAILABLE,
    BIND_COMPLETED,
    BOUND,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorRequirement,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from kscheduler.testing import PodBuilder, make_pod

HOSTNAME = "kubernetes.io/hostname"
RWO = "ReadWriteOnce"


def pod_with(*claims: str, name: str = "p", ephemeral: Sequence[str] = ()) -> PodBuilder:
    """A pod with a volume for each claim, and generic ephemeral volumes of these names."""
    pod = make_pod(name).obj()
    volumes = [
        Volume(f"v{i}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim))
        for i, claim in enumerate(claims)
    ]
    volumes += [Volume(each, ephemeral=EphemeralVolumeSource()) for each in ephemeral]
    return PodBuilder(replace(pod, spec=replace(pod.spec, volumes=volumes)))


def make_claim(
    name: str,
    class_name: str | None = "wait",
    size: str | None = "1Gi",
    *,
    volume: str = "",
    selected_node: str = "",
    modes: Sequence[str] = (RWO,),
    selector: LabelSelector | None = None,
    mode: str | None = None,
    attributes_class: str | None = None,
    phase: str = "Pending",
    deleted: bool = False,
    owner: Pod | None = None,
    version: str = "1",
) -> PersistentVolumeClaim:
    """With `volume`: bound to it, from both sides."""
    annotations = {SELECTED_NODE: selected_node} if selected_node else {}
    if volume:
        annotations[BIND_COMPLETED] = "yes"
    owners = [] if owner is None else [OwnerReference("v1", "Pod", owner.metadata.name, owner.metadata.uid, True)]
    return PersistentVolumeClaim(
        ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            resource_version=version,
            annotations=annotations or None,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
            owner_references=owners or None,
        ),
        PersistentVolumeClaimSpec(
            access_modes=list(modes),
            selector=selector,
            resources=None if size is None else ResourceRequirements(requests={"storage": size}),
            volume_name=volume,
            storage_class_name=class_name,
            volume_mode=mode,
            volume_attributes_class_name=attributes_class,
        ),
        PersistentVolumeClaimStatus(BOUND if volume and phase == "Pending" else phase),
    )


def make_volume(
    name: str,
    class_name: str = "wait",
    size: str = "1Gi",
    *,
    on: Mapping[str, Sequence[str]] | None = None,
    affinity: NodeSelector | None = None,
    claim: str | ObjectReference = "",
    modes: Sequence[str] = (RWO,),
    labels: Mapping[str, str] | None = None,
    mode: str | None = None,
    attributes_class: str | None = None,
    phase: str = AVAILABLE,
    deleted: bool = False,
    version: str = "1",
    **sources: Any,
) -> PersistentVolume:
    """`on`: label -> its values on nodes that can access the volume. `claim`: the one it is reserved for."""
    if on is not None:
        needs = [SelectorRequirement(key, "In", list(values)) for key, values in on.items()]
        affinity = NodeSelector([NodeSelectorTerm(needs)])
    reference = claim if isinstance(claim, ObjectReference) else refer_to(claim)
    return PersistentVolume(
        ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            resource_version=version,
            labels=dict(labels) if labels else None,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=list(modes),
            claim_ref=reference if reference.name else None,
            storage_class_name=class_name,
            volume_mode=mode,
            volume_attributes_class_name=attributes_class,
            node_affinity=None if affinity is None else VolumeNodeAffinity(affinity),
            **sources,
        ),
        PersistentVolumeStatus(phase),
    )


def refer_to(claim: str, uid: str | None = None) -> ObjectReference:
    """A reference to a claim in `default`, with its uid unless another is given; "" leaves it open."""
    return ObjectReference("v1", "PersistentVolumeClaim", "default", claim, f"uid-{claim}" if uid is None else uid)


def make_class(
    name: str = "wait",
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str | None = WAIT_FOR_FIRST_CONSUMER,
    *allowed: Mapping[str, Sequence[str]],
) -> StorageClass:
    """`allowed`: topologies, each of labels and values that all must be met; one topology must."""
    terms = [
        TopologySelectorTerm([TopologySelectorRequirement(key, list(values)) for key, values in term.items()])
        for term in allowed
    ]
    return StorageClass(ObjectMeta(name=name), provisioner, mode, terms or None)


def make_driver(name: str, storage_capacity: bool | None = True) -> CSIDriver:
    return CSIDriver(ObjectMeta(name=name), CSIDriverSpec(storage_capacity=storage_capacity))


def make_csi_node(name: str, *migrated: str) -> CSINode:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)} if migrated else None
    return CSINode(ObjectMeta(name=name, annotations=annotations))


def make_capacity(
    name: str,
    class_name: str = "wait",
    capacity: str | None = "10Gi",
    on: Mapping[str, str] | LabelSelector | None = None,
    maximum: str | None = None,
) -> CSIStorageCapacity:
    """`on`: the labels of the nodes that can access it."""
    selector = LabelSelector(match_labels=dict(on)) if isinstance(on, Mapping) else on
    return CSIStorageCapacity(ObjectMeta(name=name, namespace="kube-system"), selector, class_name, capacity, maximum)
