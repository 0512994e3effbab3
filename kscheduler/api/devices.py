"""The kinds of dynamic resource allocation, resource.k8s.io/v1: claims for devices, slices, classes and taint rules.

As in `api.objects`, fields that scheduling does not use are absent, and quantities stay text. Maps whose keys are
qualified names (`domain/name`, or a bare `name`, which belongs to the driver's domain) are kept as they are served.
"""

from __future__ import annotations

import msgspec

from kscheduler.api.objects import (
    APIObject,
    APIStruct,
    Labels,
    NamespacedObject,
    NodeSelector,
    ObjectMeta,
    QuantityMap,
    RawQuantity,
    Taint,
    Toleration,
)

EXACT_COUNT, ALL = "ExactCount", "All"  # allocation modes; the apiserver fills in an absent one
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"  # sources of a configuration
FINALIZER = "resource.kubernetes.io/delete-protection"  # on claims that are allocated
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"  # annotation of claims made by the scheduler
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"  # annotation of claims made from templates
EXTENDED_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"  # of the extended resource that each class stands for


# --- slices -----------------------------------------------------------------------------------------------------


class DeviceAttribute(APIStruct, frozen=True):
    """An attribute's value; exactly one field is set. Lists are behind the gate DRAListTypeAttributes."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class CapacityRange(APIStruct, frozen=True):
    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(APIStruct, frozen=True):
    """Which amounts of a capacity may be requested of a device that is shared."""

    default: RawQuantity | None = None
    valid_values: list[RawQuantity] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(APIStruct, frozen=True):
    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(APIStruct, frozen=True):
    value: RawQuantity = "0"


class CounterSet(APIStruct, frozen=True):
    """Amounts that the devices of a pool share, such as the memory of a GPU that can be partitioned."""

    name: str = ""
    counters: dict[str, Counter] | None = None


class DeviceCounterConsumption(APIStruct, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None
    compatibility_groups: list[str] | None = None


class DeviceTaint(Taint, frozen=True):
    time_added: str | None = None


class DeviceToleration(Toleration, frozen=True):
    toleration_seconds: int | None = None


class NodeAllocatableResourceMapping(APIStruct, frozen=True):
    """How much of a resource of the node a device stands for, in 1.36: by device, or by what is used of a capacity."""

    capacity_key: str | None = None
    allocation_multiplier: RawQuantity | None = None


class NodeAllocatableMapping(APIStruct, frozen=True):
    """The same in later releases."""

    capacity_key: str | None = None
    capacity_multiplier: RawQuantity | None = None
    device_multiplier: RawQuantity | None = None


class NodeAllocatableOverhead(APIStruct, frozen=True):
    """What a device takes besides: once for each pod that uses its claim, and for each of the pod's containers."""

    per_pod: RawQuantity | None = None
    per_container: RawQuantity | None = None


class NodeAllocatableResource(APIStruct, frozen=True):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(APIStruct, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[DeviceCounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    # By the name of a resource of nodes, such as cpu; the first is of 1.36, the second of later releases.
    node_allocatable_resource_mappings: dict[str, NodeAllocatableResourceMapping] | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] | None = None


class ResourcePool(APIStruct, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(APIStruct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None
    skip_node_operations: list[str] | None = None  # what kubelets need not do for these devices


class ResourceSlice(APIObject, frozen=True):
    """A part of a pool: devices that a driver publishes for one node, or for several."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- classes and taint rules ------------------------------------------------------------------------------------


class CELDeviceSelector(APIStruct, frozen=True):
    expression: str = ""


class DeviceSelector(APIStruct, frozen=True):
    cel: CELDeviceSelector | None = None


class OpaqueConfiguration(APIStruct, frozen=True):
    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class DeviceClassConfiguration(APIStruct, frozen=True):
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(APIStruct, frozen=True):
    selectors: list[DeviceSelector] | None = None
    config: list[DeviceClassConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(APIObject, frozen=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(APIStruct, frozen=True):
    """Selects devices; an absent field matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(APIStruct, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(APIObject, frozen=True):
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


# --- claims -----------------------------------------------------------------------------------------------------


class CapacityRequirements(APIStruct, frozen=True):
    requests: QuantityMap | None = None


class DeviceDerivedAttribute(APIStruct, frozen=True):
    """An attribute that a request computes of each device by a CEL expression, for constraints."""

    name: str = ""
    expression: str = ""


class ExactDeviceRequest(APIStruct, frozen=True):
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DeviceDerivedAttribute] | None = None


class DeviceSubRequest(APIStruct, frozen=True):
    """One of the alternatives of a request, tried in their order."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DeviceDerivedAttribute] | None = None


class DeviceRequest(APIStruct, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(APIStruct, frozen=True):
    requests: list[str] | None = None  # absent: all
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(APIStruct, frozen=True):
    requests: list[str] | None = None  # absent: all
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(APIStruct, frozen=True):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None


class ResourceClaimSpec(APIStruct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(APIStruct, frozen=True):
    """A device that was allocated. `request` is a request's name, or `request/alternative`."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: QuantityMap | None = None
    skip_node_operations: list[str] | None = None


class DeviceAllocationConfiguration(APIStruct, frozen=True):
    source: str = ""
    requests: list[str] | None = None
    opaque: OpaqueConfiguration | None = None


class DeviceAllocationResult(APIStruct, frozen=True):
    results: list[DeviceRequestAllocationResult] | None = None
    config: list[DeviceAllocationConfiguration] | None = None


class AllocationResult(APIStruct, frozen=True):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None  # the nodes on which the claim can be used; None: all
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(APIStruct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(APIStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class AllocatedDeviceStatus(APIStruct, frozen=True):
    """What the driver reports of a device after its allocation."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[DeviceCondition] | None = None


class ResourceClaimStatus(APIStruct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: list[ResourceClaimConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ClaimMeta(ObjectMeta, frozen=True):
    finalizers: list[str] | None = None
    generate_name: str = ""


class ResourceClaim(NamespacedObject, frozen=True):
    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class TemplateMeta(APIStruct, frozen=True):
    labels: Labels | None = None
    annotations: Labels | None = None


class ResourceClaimTemplateSpec(APIStruct, frozen=True):
    """The spec of the claims that are made from a template, and their labels and annotations."""

    metadata: TemplateMeta = TemplateMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(NamespacedObject, frozen=True):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


DeviceObject = DeviceClass | DeviceTaintRule | ResourceSlice | ResourceClaimTemplate | ResourceClaim
