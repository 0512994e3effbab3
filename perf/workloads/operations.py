"""The operations of a workload, in the fields of scheduler_perf's files. A field that is not here is an error.

A count is written as a number, or as the name of a parameter (`countParam: $initPods`) which the size gives.
"""

from __future__ import annotations

from typing import Literal, Union

import msgspec

CHURN_INTERVAL_MS = 500  # scheduler_perf's default


class _Fields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class Operation(_Fields, frozen=True, tag_field="opcode"):
    """One step of a workload."""


class LabelNodes(_Fields, frozen=True):
    """A label whose values the nodes get in turn."""

    label_key: str
    label_values: tuple[str, ...]


class UniqueNodeLabel(_Fields, frozen=True):
    """A label with another value on each node."""

    label_key: str


class DriverCount(_Fields, frozen=True):
    """How many volumes of a CSI driver a node takes."""

    count: int


class NodeAllocatable(_Fields, frozen=True):
    """What nodes have to give beside their template, and what their CSI drivers do."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, DriverCount] = {}  # driver -> limit
    migrated_plugins: tuple[str, ...] = ()


class CreateNodes(Operation, frozen=True, tag="createNodes"):
    """Nodes, each with the label kubernetes.io/hostname."""

    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueNodeLabel | None = None
    node_allocatable_strategy: NodeAllocatable | None = None


class CreateNamespaces(Operation, frozen=True, tag="createNamespaces"):
    """Namespaces `prefix-0` and so on."""

    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Operation, frozen=True, tag="createPods"):
    """Pods, and the wait until all have a node."""

    count: int = 0
    count_param: str = ""
    namespace: str = ""  # that of the operation's position when empty
    pod_template_path: str = ""  # the case's default when empty
    persistent_volume_template_path: str = ""  # with the next: a volume for each pod, bound to a claim of its own
    persistent_volume_claim_template_path: str = ""
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    steady_state: bool = False  # as many at a time, for the duration; read, but not carried out
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""


class CreatePodSets(Operation, frozen=True, tag="createPodSets"):
    """The same pods in each of the namespaces `prefix-0` and so on."""

    namespace_prefix: str
    create_pods_op: CreatePods
    count: int = 0
    count_param: str = ""


class DeletePods(Operation, frozen=True, tag="deletePods"):
    """The pods of a namespace, all or those with these labels, at once or at a rate."""

    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: int = 0
    skip_wait_to_completion: bool = False


class CreateAny(Operation, frozen=True, tag="createAny"):
    """Objects of any kind."""

    template_path: str
    namespace: str = ""  # only for kinds that have one
    count: int = 0  # one when neither this nor countParam is given
    count_param: str = ""


class UpdateAny(Operation, frozen=True, tag="updateAny"):
    """Objects of any kind in the place of those of the same name, at once or at a rate."""

    template_path: str
    namespace: str = ""
    count: int = 0
    count_param: str = ""
    update_per_second: int = 0
    subresources: tuple[str, ...] = ()


class Churn(Operation, frozen=True, tag="churn"):
    """Objects that come, and with `recreate` go again, from here to the end of the workload."""

    mode: Literal["create", "recreate"]
    template_paths: tuple[str, ...]
    number: int = 0  # rounds of creation, 0 for no end; with recreate, how many of a template are alive at most
    interval_milliseconds: int = CHURN_INTERVAL_MS
    namespace: str = ""  # that of the operation's position when empty


class Barrier(Operation, frozen=True, tag="barrier"):
    """The wait for pods that no one has waited for."""

    namespaces: tuple[str, ...] = ()  # all in which there are such pods when empty
    label_selector: dict[str, str] = {}
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(Operation, frozen=True, tag="sleep"):
    """Nothing, for a while."""

    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Operation, frozen=True, tag="startCollectingMetrics"):
    """Measure the pods of these namespaces that are bound from here on."""

    name: str
    namespaces: tuple[str, ...]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Operation, frozen=True, tag="stopCollectingMetrics"):
    """Measure no more."""


AnyOperation = Union[  # noqa: UP007  # msgspec reads it at run time
    CreateNodes,
    CreateNamespaces,
    CreatePods,
    CreatePodSets,
    CreateAny,
    UpdateAny,
    DeletePods,
    Churn,
    Barrier,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
]

OPCODES = tuple(
    str(operation.__struct_config__.tag)
    for operation in (
        CreateNodes,
        CreateNamespaces,
        CreatePods,
        CreatePodSets,
        CreateAny,
        UpdateAny,
        DeletePods,
        Churn,
        Barrier,
        Sleep,
        StartCollectingMetrics,
        StopCollectingMetrics,
    )
)

# Operations of scheduler_perf that need what is not there: opcode -> what.
ELSEWHERE = {
    "createResourceDriver": "a driver of dynamic resources",
    "allocResourceClaims": "a driver of dynamic resources",
}
