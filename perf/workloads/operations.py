"""Defines the operations of a workload, with the fields of scheduler_perf's files. Unknown fields are errors.

A count is a number, or the name of a parameter that the size defines (`countParam: $initPods`).
"""

from __future__ import annotations

from typing import Literal, Union, get_args

import msgspec

Parameter = bool | int | float | str

CHURN_INTERVAL_MS = 500  # scheduler_perf's default


class _Fields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class Operation(_Fields, frozen=True, tag_field="opcode"):
    """The base of all operations, i.e. steps of a workload."""


class LabelNodes(_Fields, frozen=True):
    """A label whose values are assigned to the nodes in turn."""

    label_key: str
    label_values: tuple[str, ...]


class UniqueNodeLabel(_Fields, frozen=True):
    """A label with a different value on each node."""

    label_key: str


class DriverCount(_Fields, frozen=True):
    """How many volumes of a CSI driver a node can attach."""

    count: int


class NodeAllocatable(_Fields, frozen=True):
    """What nodes have allocatable besides their template's resources, and the limits of their CSI drivers."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, DriverCount] = {}  # CSI driver -> limit of volumes
    migrated_plugins: tuple[str, ...] = ()


class CreateNodes(Operation, frozen=True, tag="createNodes"):
    """Creates nodes, each with the label kubernetes.io/hostname."""

    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None
    node_allocatable_strategy: NodeAllocatable | None = None


class CreateNamespaces(Operation, frozen=True, tag="createNamespaces"):
    """Creates namespaces `prefix-0` and so on."""

    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Operation, frozen=True, tag="createPods"):
    """Creates pods, and waits until all of them have a node."""

    count: int = 0
    count_param: str = ""
    count_multiplier_param: str = ""  # so many for each that is counted, such as the members of a group
    namespace: str = ""  # "": the namespace of the operation at this position
    pod_template_path: str = ""  # "": the case's default
    template_params: dict[str, Parameter] = {}  # name -> value, or $ and the name of a parameter of the size
    persistent_volume_template_path: str = ""  # with the next field: a volume for each pod, bound to its own claim
    persistent_volume_claim_template_path: str = ""
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    steady_state: bool = False  # delete the pods once they are bound, and create others, until the duration is over
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""


class CreatePodSets(Operation, frozen=True, tag="createPodSets"):
    """Creates the same pods in each of the namespaces `prefix-0` and so on."""

    namespace_prefix: str
    create_pods_op: CreatePods
    count: int = 0
    count_param: str = ""


class DeletePods(Operation, frozen=True, tag="deletePods"):
    """Deletes the pods of a namespace, all or those with certain labels, at once or at a rate."""

    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: int = 0
    skip_wait_to_completion: bool = False


class CreateAny(Operation, frozen=True, tag="createAny"):
    """Creates objects of any kind."""

    template_path: str
    template_params: dict[str, Parameter] = {}  # as those of createPods
    namespace: str = ""  # for namespaced kinds only
    count: int = 0  # 1 if neither this nor countParam is given
    count_param: str = ""


class CreatePodGroups(CreateAny, frozen=True, tag="createPodGroups"):
    """Creates PodGroups in a namespace."""


class CreateResourceClaims(CreateAny, frozen=True, tag="createResourceClaims"):
    """Creates ResourceClaims in a namespace."""


class UpdateAny(Operation, frozen=True, tag="updateAny"):
    """Replaces existing objects of any kind, at once or at a rate."""

    template_path: str
    namespace: str = ""
    count: int = 0
    count_param: str = ""
    update_per_second: int = 0
    subresources: tuple[str, ...] = ()


class Churn(Operation, frozen=True, tag="churn"):
    """Creates objects and, with mode `recreate`, deletes them again, from here to the end of the workload."""

    mode: Literal["create", "recreate"]
    template_paths: tuple[str, ...]
    number: int = 0  # rounds of creation, 0: endless; with recreate, how many objects of a template exist at most
    interval_milliseconds: int = CHURN_INTERVAL_MS
    namespace: str = ""  # "": the namespace of the operation at this position


class Barrier(Operation, frozen=True, tag="barrier"):
    """Waits until all pods have a node that no operation has waited for yet."""

    namespaces: tuple[str, ...] = ()  # empty: all namespaces with such pods
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(Operation, frozen=True, tag="sleep"):
    """Waits for a given time."""

    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Operation, frozen=True, tag="startCollectingMetrics"):
    """Begins to measure the pods of these namespaces that are bound from here on."""

    name: str
    namespaces: tuple[str, ...]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Operation, frozen=True, tag="stopCollectingMetrics"):
    """Ends the measurement."""


class CreateResourceDriver(Operation, frozen=True, tag="createResourceDriver"):
    """Publishes a ResourceSlice for each node whose name matches, with as many devices as claims are to fit there."""

    driver_name: str
    nodes: str  # a pattern of names as in a shell, such as scheduler-perf-dra-*
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class AllocResourceClaims(Operation, frozen=True, tag="allocResourceClaims"):
    """Allocates devices of random nodes to the claims that have none, as if pods had used them."""

    namespace: str = ""  # "": all namespaces


AnyOperation = Union[  # noqa: UP007  # msgspec reads it at run time
    CreateNodes,
    CreateNamespaces,
    CreatePods,
    CreatePodSets,
    CreateAny,
    CreatePodGroups,
    CreateResourceClaims,
    UpdateAny,
    DeletePods,
    Churn,
    Barrier,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    CreateResourceDriver,
    AllocResourceClaims,
]

OPCODES = tuple(str(operation.__struct_config__.tag) for operation in get_args(AnyOperation))
