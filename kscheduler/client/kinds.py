"""The kinds of objects that the scheduler reads: their paths in the API, and the structs that they are decoded to.

Kinds that describe gangs are in `client.pod_group_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kscheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.elastic_quotas import ElasticQuota
from kscheduler.api.objects import (
    ConfigMap,
    Lease,
    MetricPolicyObject,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicationController,
    Service,
    TASPolicyObject,
    Workload,
)
from kscheduler.api.share_queues import KaiQueueObject, QueueObject
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind of object: its path in the API, and the struct that it is decoded to."""

    group_version: str  # "v1", or "coordination.k8s.io/v1"
    plural: str
    kind: str
    type: type[T]
    namespaced: bool = True
    namespace: str = ""  # "" lists and watches all namespaces
    label: str = ""  # lists and watches only objects with a label of this key; "" all
    # Reads a watch line faster than decoding does. Returns the event type and what the informer's `keep` would return.
    # It returns None for a line that must be decoded.
    read_line: Callable[[bytes], tuple[str, T] | None] | None = field(default=None, compare=False, repr=False)

    @property
    def path(self) -> str:
        """The path to list and watch this kind: `/api/v1/pods`, `/apis/coordination.k8s.io/v1/namespaces/x/leases`."""
        root = "/apis" if "/" in self.group_version else "/api"
        within = f"namespaces/{self.namespace}/" if self.namespace else ""
        return f"{root}/{self.group_version}/{within}{self.plural}"

    def within(self, namespace: str) -> Resource[T]:
        """Return this kind restricted to one namespace, as a namespaced Role may list and watch it."""
        return replace(self, namespace=namespace)


PODS: Resource[Pod] = Resource("v1", "pods", "Pod", Pod)
POD_DOCUMENTS: Resource[PodDocument] = Resource("v1", "pods", "Pod", PodDocument)
NODES: Resource[Node] = Resource("v1", "nodes", "Node", Node, namespaced=False)
NODE_DOCUMENTS: Resource[NodeDocument] = Resource("v1", "nodes", "Node", NodeDocument, namespaced=False)
NAMESPACES: Resource[Namespace] = Resource("v1", "namespaces", "Namespace", Namespace, namespaced=False)
SERVICES: Resource[Service] = Resource("v1", "services", "Service", Service)
REPLICATION_CONTROLLERS: Resource[ReplicationController] = Resource(
    "v1", "replicationcontrollers", "ReplicationController", ReplicationController
)
REPLICA_SETS: Resource[Workload] = Resource("apps/v1", "replicasets", "ReplicaSet", Workload)
STATEFUL_SETS: Resource[Workload] = Resource("apps/v1", "statefulsets", "StatefulSet", Workload)
POD_DISRUPTION_BUDGETS: Resource[PodDisruptionBudget] = Resource(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget
)
PERSISTENT_VOLUMES: Resource[PersistentVolume] = Resource(
    "v1", "persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False
)
PERSISTENT_VOLUME_CLAIMS: Resource[PersistentVolumeClaim] = Resource(
    "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim
)
STORAGE_CLASSES: Resource[StorageClass] = Resource(
    "storage.k8s.io/v1", "storageclasses", "StorageClass", StorageClass, namespaced=False
)
CSI_NODES: Resource[CSINode] = Resource("storage.k8s.io/v1", "csinodes", "CSINode", CSINode, namespaced=False)
CSI_DRIVERS: Resource[CSIDriver] = Resource("storage.k8s.io/v1", "csidrivers", "CSIDriver", CSIDriver, namespaced=False)
CSI_STORAGE_CAPACITIES: Resource[CSIStorageCapacity] = Resource(
    "storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity
)
VOLUME_ATTACHMENTS: Resource[VolumeAttachment] = Resource(
    "storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", VolumeAttachment, namespaced=False
)
RESOURCE_CLAIMS: Resource[ResourceClaim] = Resource(
    "resource.k8s.io/v1", "resourceclaims", "ResourceClaim", ResourceClaim
)
RESOURCE_CLAIM_TEMPLATES: Resource[ResourceClaimTemplate] = Resource(
    "resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", ResourceClaimTemplate
)
RESOURCE_SLICES: Resource[ResourceSlice] = Resource(
    "resource.k8s.io/v1", "resourceslices", "ResourceSlice", ResourceSlice, namespaced=False
)
DEVICE_CLASSES: Resource[DeviceClass] = Resource(
    "resource.k8s.io/v1", "deviceclasses", "DeviceClass", DeviceClass, namespaced=False
)
DEVICE_TAINT_RULES: Resource[DeviceTaintRule] = Resource(
    "resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule", DeviceTaintRule, namespaced=False
)
METRIC_POLICIES: Resource[MetricPolicyObject] = Resource(
    "kscheduler.io/v1alpha1", "metricpolicies", "MetricPolicy", MetricPolicyObject
)
TAS_POLICIES: Resource[TASPolicyObject] = Resource(
    "telemetry.intel.com/v1alpha1", "taspolicies", "TASPolicy", TASPolicyObject
)
ELASTIC_QUOTAS: Resource[ElasticQuota] = Resource(
    "scheduling.x-k8s.io/v1alpha1", "elasticquotas", "ElasticQuota", ElasticQuota
)
SHARE_QUEUES: Resource[QueueObject] = Resource(
    "kscheduler.io/v1alpha1", "queues", "Queue", QueueObject, namespaced=False
)
KAI_QUEUES: Resource[KaiQueueObject] = Resource(
    "scheduling.run.ai/v2", "queues", "Queue", KaiQueueObject, namespaced=False
)
CONFIG_MAPS: Resource[ConfigMap] = Resource("v1", "configmaps", "ConfigMap", ConfigMap)
LEASES: Resource[Lease] = Resource("coordination.k8s.io/v1", "leases", "Lease", Lease)

# Kinds that say which pods belong together.
GROUPS: tuple[Resource[Any], ...] = (
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
)
# Volumes and what describes them, in an order in which each finds what it names.
STORAGE: tuple[Resource[Any], ...] = (
    STORAGE_CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    VOLUME_ATTACHMENTS,
)

# The kinds of dynamic resource allocation that are watched, in an order in which each finds what it names. An apiserver
# may not serve them.
DEVICES: tuple[Resource[Any], ...] = (DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_SLICES, RESOURCE_CLAIMS)

# Finished pods hold no resources; the apiserver leaves them out, and reports their end as DELETED.
UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"
