"""The storage kinds that the scheduler reads: claims, volumes, classes, drivers and capacities.

As in `api.objects`, fields that scheduling does not use are absent, and quantities stay text. The spec of
PersistentVolumeClaim is there, because a pod may have one as a template.
"""

from __future__ import annotations

import msgspec

from kscheduler.api.labels import compile_label_selector
from kscheduler.api.objects import (
    APIObject,
    APIStruct,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    LabelSelector,
    NamespacedObject,
    NodeSelector,
    PersistentVolumeClaimSpec,
    Pod,
    PortworxVolume,
    QuantityMap,
    RawQuantity,
    Volume,
    VsphereVolume,
)
from kscheduler.api.quantity import parse_units

# Annotations: how the scheduler, the volume controller and provisioners talk to each other. Their presence counts;
# only that of the selected node, and of the class, has a value that means something.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"  # on a claim: it is bound, from both sides
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"  # on either: no user chose the other side
SELECTED_NODE = "volume.kubernetes.io/selected-node"  # on a claim: provision a volume for this node
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"  # on a volume: made for its claim, by this provisioner
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"  # on a CSINode: in-tree plugins that are CSI there
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"  # on either: the class, and stronger than the field

IS_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"  # on a class: "true" for claims that name none
BETA_IS_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"  # likewise

NO_PROVISIONER = "kubernetes.io/no-provisioner"  # a class that makes no volumes
IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"  # the resource that claims ask for and volumes have

AVAILABLE, BOUND, RELEASED = "Available", "Bound", "Released"  # phases of a volume
PENDING, LOST = "Pending", "Lost"  # of a claim, beside Bound


# --- volumes ----------------------------------------------------------------------------------------------------


class ObjectReference(APIStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class CSIPersistentVolumeSource(APIStruct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(APIStruct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(APIStruct, frozen=True):
    capacity: QuantityMap | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None


class PersistentVolumeStatus(APIStruct, frozen=True):
    phase: str = ""


class PersistentVolume(APIObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# --- claims -----------------------------------------------------------------------------------------------------


class PersistentVolumeClaimStatus(APIStruct, frozen=True):
    phase: str = ""
    capacity: QuantityMap | None = None


class PersistentVolumeClaim(NamespacedObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# --- classes, and what drivers say of nodes and capacity ----------------------------------------------------------


class TopologySelectorRequirement(APIStruct, frozen=True):
    key: str = ""
    values: list[str] = msgspec.field(default_factory=list)


class TopologySelectorTerm(APIStruct, frozen=True):
    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClass(APIObject, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(APIStruct, frozen=True):
    count: int | None = None  # of volumes; None: no limit is known


class CSINodeDriver(APIStruct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(APIStruct, frozen=True):
    drivers: list[CSINodeDriver] = msgspec.field(default_factory=list)


class CSINode(APIObject, frozen=True):
    """The CSI drivers installed on the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(APIStruct, frozen=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(APIObject, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(NamespacedObject, frozen=True):
    """How much storage a CSI driver can still provide for one storage class to the nodes that the selector matches.

    A selector of None matches no nodes.
    """

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class VolumeAttachmentSource(APIStruct, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(APIStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(APIObject, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


# --- reading them -----------------------------------------------------------------------------------------------


def claim_name_of(pod: Pod, volume: Volume) -> tuple[str, bool]:
    """Return (name of the claim for a pod's volume, whether it is created for the pod), or ("", False) without one."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name, False
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}", True
    return "", False


def is_made_for(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """Return True if the claim was created for the pod's ephemeral volume, and does not just have its name."""
    owners = claim.metadata.owner_references or ()
    controller = next((owner for owner in owners if owner.controller), None)
    return (
        claim.metadata.namespace == pod.metadata.namespace
        and controller is not None
        and controller.uid == pod.metadata.uid
    )


def class_of(item: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the name of the claim's or volume's StorageClass, "" for none."""
    beta = (item.metadata.annotations or {}).get(BETA_STORAGE_CLASS)
    return beta if beta is not None else item.spec.storage_class_name or ""


# --- sense ------------------------------------------------------------------------------------------------------

# Node affinity is not checked: the apiserver lets some of it through that matches no node, and that is what it says.


def check_storage(item: APIObject) -> None:
    """Raise DecodeError, with the field's path, for a value of the object that scheduling could not interpret."""
    if isinstance(item, PersistentVolume):
        _check_volume(item)
    elif isinstance(item, PersistentVolumeClaim):
        _check_claim(item)
    elif isinstance(item, CSIStorageCapacity):
        _check_capacity(item)


def _check_volume(volume: PersistentVolume) -> None:
    for name, quantity in (volume.spec.capacity or {}).items():
        parse_units(quantity, f"spec.capacity[{name}]")


def _check_claim(claim: PersistentVolumeClaim) -> None:
    requests = claim.spec.resources.requests if claim.spec.resources else None
    for name, quantity in (requests or {}).items():
        parse_units(quantity, f"spec.resources.requests[{name}]")
    compile_label_selector(claim.spec.selector, "spec.selector")


def _check_capacity(capacity: CSIStorageCapacity) -> None:
    for field, quantity in (("capacity", capacity.capacity), ("maximumVolumeSize", capacity.maximum_volume_size)):
        if quantity is not None:
            parse_units(quantity, field)
    compile_label_selector(capacity.node_topology, "nodeTopology")
