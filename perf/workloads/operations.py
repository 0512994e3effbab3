"""The operations of a workload, in the fields of scheduler_perf's files. A field that is not here is an error.

A count is written as a number, or as the name of a parameter (`countParam: $initPods`) which the size gives.
"""

from __future__ import annotations

from typing import Literal, Union

import msgspec

CHURN_INTERVAL_MS = 500  # scheduler_perf's default


class Operation(msgspec.Struct, frozen=True, tag_field="opcode", rename="camel", forbid_unknown_fields=True):
    """One step of a workload."""


class CreateNodes(Operation, frozen=True, tag="createNodes"):
    """Nodes, each with the label kubernetes.io/hostname."""

    count: int = 0
    count_param: str = ""
    node_template_path: str = ""


class CreateNamespaces(Operation, frozen=True, tag="createNamespaces"):
    """Namespaces `prefix-0` and so on."""

    prefix: str
    count: int = 0
    count_param: str = ""


class CreatePods(Operation, frozen=True, tag="createPods"):
    """Pods, and the wait until all have a node."""

    count: int = 0
    count_param: str = ""
    namespace: str = ""  # that of the operation's position when empty
    pod_template_path: str = ""  # the case's default when empty
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False


class DeletePods(Operation, frozen=True, tag="deletePods"):
    """All pods of a namespace, at once or at a rate."""

    namespace: str
    delete_pods_per_second: int = 0
    skip_wait_to_completion: bool = False


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
    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"


class Sleep(Operation, frozen=True, tag="sleep"):
    """Nothing, for a while."""

    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Operation, frozen=True, tag="startCollectingMetrics"):
    """Measure the pods of these namespaces that are bound from here on."""

    name: str
    namespaces: tuple[str, ...]


class StopCollectingMetrics(Operation, frozen=True, tag="stopCollectingMetrics"):
    """Measure no more."""


AnyOperation = Union[  # noqa: UP007  # msgspec reads it at run time
    CreateNodes,
    CreateNamespaces,
    CreatePods,
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
        DeletePods,
        Churn,
        Barrier,
        Sleep,
        StartCollectingMetrics,
        StopCollectingMetrics,
    )
)
