"""Kubernetes objects with the fields that the scheduler reads.

Field names are the API's in snake case; `rename="camel"` gives the names in JSON. Fields that scheduling does not use
are absent and cost nothing to decode. Quantities stay text until `api.resources` parses them, so that a malformed one
is reported with its path instead of failing the whole list. Everything is frozen: cache, queue, plugins and the
simulator share an object without copies. Trees of frozen values have no reference cycles, hence gc=False.
"""

from __future__ import annotations

from typing import Any

import msgspec

# A quantity as it stands in JSON ("100m") or in hand-written YAML (1, 0.5).
RawQuantity = str | int | float
QuantityMap = dict[str, RawQuantity]  # resource name -> quantity
Labels = dict[str, str]


class APIStruct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The base class of all API values."""


# --- metadata ---------------------------------------------------------------------------------------------------


class OwnerReference(APIStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(APIStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Labels | None = None
    annotations: Labels | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None


class APIObject(APIStruct, frozen=True):
    """The base class of cluster-scoped kinds."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """The object's name, by which logs and Events identify it."""
        return self.metadata.name


class NamespacedObject(APIObject, frozen=True):
    """The base class of namespaced kinds."""

    @property
    def key(self) -> str:
        """The object's `namespace/name`, by which logs and Events identify it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


# --- selectors --------------------------------------------------------------------------------------------------


class SelectorRequirement(APIStruct, frozen=True):
    """A requirement of a node selector or label selector; `api.labels` checks the operator."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(APIStruct, frozen=True):
    match_labels: Labels | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(APIStruct, frozen=True):
    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(APIStruct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(APIStruct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(APIStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(APIStruct, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(APIStruct, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(APIStruct, frozen=True):
    """The pod affinity of a pod, or its anti-affinity, which has the same fields."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(APIStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(APIStruct, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


# --- pods -------------------------------------------------------------------------------------------------------


class ContainerClaim(APIStruct, frozen=True):
    """An entry of the pod's `resourceClaims`, by its name, whose devices the container uses."""

    name: str = ""


class ResourceRequirements(APIStruct, frozen=True):
    requests: QuantityMap | None = None
    limits: QuantityMap | None = None
    claims: list[ContainerClaim] | None = None


class ContainerPort(APIStruct, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(APIStruct, frozen=True):
    action: str = ""


class VolumeMount(APIStruct, frozen=True):
    """A volume in a container. Only options that a node must support are read."""

    bind_mount_options: list[str] | None = None


class Container(APIStruct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None


class Toleration(APIStruct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PodSchedulingGate(APIStruct, frozen=True):
    name: str = ""


class PodResourceClaim(APIStruct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(APIStruct, frozen=True):
    """The PodGroup with which a pod must be scheduled, all pods or none."""

    pod_group_name: str | None = None


class PersistentVolumeClaimVolumeSource(APIStruct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(APIStruct, frozen=True):
    reference: str = ""


class GCEPersistentDisk(APIStruct, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(APIStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDisk(APIStruct, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class AzureFile(APIStruct, frozen=True):
    secret_name: str = ""
    share_name: str = ""
    secret_namespace: str | None = None  # of a persistent volume only


class Cinder(APIStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolume(APIStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolume(APIStruct, frozen=True):
    volume_path: str = ""


class ISCSI(APIStruct, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class RBD(APIStruct, frozen=True):
    monitors: list[str] = []
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CSIVolumeSource(APIStruct, frozen=True):
    """An ephemeral volume of a CSI driver, which exists as long as its pod."""

    driver: str = ""


class PersistentVolumeClaimSpec(APIStruct, frozen=True):
    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""  # the volume it is bound to, or is to be bound to
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(APIStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(APIStruct, frozen=True):
    """The template of a PersistentVolumeClaim that a controller creates for the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(APIStruct, frozen=True):
    """A volume of a pod, with only those kinds that restrict the pod to certain nodes; others are ignored."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    portworx_volume: PortworxVolume | None = None
    vsphere_volume: VsphereVolume | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None


class PodSpec(APIStruct, frozen=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: list[Volume] | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None  # see `grace_period`
    active_deadline_seconds: int | None = None
    restart_policy: str = ""


class PodCondition(APIStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int = 0


class ContainerStatus(APIStruct, frozen=True):
    """A container's resources as the kubelet has applied them, for pods that are resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None


class PodResourceClaimStatus(APIStruct, frozen=True):
    """The claim that was made for an entry of the pod's spec from a template; None if none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(APIStruct, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(APIStruct, frozen=True):
    """The claim that the scheduler made for extended resources that are backed by devices."""

    request_mappings: list[ContainerExtendedResourceRequest] | None = None
    resource_claim_name: str = ""


class NodeAllocatableMappedResources(APIStruct, frozen=True):
    name: str = ""
    quantity: RawQuantity | None = None


class NodeAllocatableOverheadResources(APIStruct, frozen=True):
    name: str = ""
    per_pod: RawQuantity | None = None
    per_container: RawQuantity | None = None


class NodeAllocatableResourceClaimStatus(APIStruct, frozen=True):
    """What the devices of a claim take of the node's allocatable resources, such as cpu and memory.

    `resources` is of 1.36, `mapping` and `overhead` of later releases.
    """

    resource_claim_name: str = ""
    containers: list[str] | None = None  # those that use the claim
    resources: QuantityMap | None = None
    mapping: list[NodeAllocatableMappedResources] | None = None
    overhead: list[NodeAllocatableOverheadResources] | None = None


class PodStatus(APIStruct, frozen=True):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    resources: ResourceRequirements | None = None  # of the pod as a whole, in use; as allocated_resources below
    allocated_resources: QuantityMap | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None


class Pod(NamespacedObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- nodes ------------------------------------------------------------------------------------------------------


class Taint(APIStruct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(APIStruct, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(APIStruct, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeCondition(APIStruct, frozen=True):
    type: str = ""
    status: str = ""


class NodeStatus(APIStruct, frozen=True):
    capacity: QuantityMap | None = None
    allocatable: QuantityMap | None = None
    images: list[ContainerImage] | None = None
    conditions: list[NodeCondition] | None = None
    declared_features: list[str] | None = None


class Node(APIObject, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- namespaces -------------------------------------------------------------------------------------------------


class Namespace(APIObject, frozen=True):
    """A namespace, of which only the metadata is read."""


# --- what groups pods -------------------------------------------------------------------------------------------


class ServiceSpec(APIStruct, frozen=True):
    selector: Labels | None = None


class Service(NamespacedObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationController(NamespacedObject, frozen=True):
    """A ReplicationController, whose selector is a map of labels like a Service's."""

    spec: ServiceSpec = ServiceSpec()


class WorkloadSpec(APIStruct, frozen=True):
    selector: LabelSelector | None = None


class Workload(NamespacedObject, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()


class PodDisruptionBudgetSpec(APIStruct, frozen=True):
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(APIStruct, frozen=True):
    """The status that the disruption controller writes; a budget without a status allows no disruption."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None  # name of a pod that is being evicted -> since when


class PodDisruptionBudget(NamespacedObject, frozen=True):
    """The number of pods of an application that may be disrupted at a time."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# --- configuration ----------------------------------------------------------------------------------------------


class ConfigMap(NamespacedObject, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


# --- policies over live metrics ----------------------------------------------------------------------------------

# The spec stays undecoded: the reader of the objects decodes it strictly, so that a fault is reported by its field and
# does not make the object unreadable.


class MetricPolicyObject(NamespacedObject, frozen=True):
    """A MetricPolicy of kscheduler.io/v1alpha1."""

    spec: Any = None
    status: Any = None


class TASPolicyObject(NamespacedObject, frozen=True):
    """A TASPolicy of telemetry.intel.com/v1alpha1, without its status, which nothing writes."""

    spec: Any = None


PolicyObject = MetricPolicyObject | TASPolicyObject


# --- coordination -----------------------------------------------------------------------------------------------


class LeaseSpec(APIStruct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None  # MicroTime: RFC 3339 with six decimals
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None  # of coordinated leader election; only kept so that an update preserves it
    preferred_holder: str | None = None


class Lease(NamespacedObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()
