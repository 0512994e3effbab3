"""Reads traces, i.e. recorded nodes and pods, in the openb CSV format of a production GPU cluster.

Nodes: sn, cpu_milli, memory_mib, gpu (devices), model. Pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (per
device), gpu_spec ("A|B": accepted models), creation_time, deletion_time (seconds; empty: never). A trace without GPUs
may leave out all columns about them.
GPUs become ONE extended resource in thousandths of a device: a node has gpu x 1000, a pod requests num_gpu x
gpu_milli. It is not modelled that a share of a device must come from a single device, nor the qos class, which only
becomes a label.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kscheduler.api.objects import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SelectorRequirement,
)
from kscheduler.simulator.csv_rows import Row, read_rows
from kscheduler.simulator.pod_limit import DEFAULT_MAX_PODS, check_pods
from kscheduler.simulator.scenario import Arrival
from kscheduler.snapshot.node_classes import HOSTNAME

DEFAULT_GPU_RESOURCE = "alibabacloud.com/gpu-milli"
MODEL_LABEL = "alibabacloud.com/gpu-model"
QOS_LABEL = "alibabacloud.com/qos"
MILLI = 1000  # thousandths in one device

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "creation_time", "deletion_time")
# Columns about GPUs -> what they say of each row of a trace that has none of them.
NODE_GPU_COLUMNS = {"gpu": "0", "model": ""}
POD_GPU_COLUMNS = {"num_gpu": "0", "gpu_milli": "0", "gpu_spec": ""}

NODE_NOTE = "The trace gives no limit of pods on a node; the kubelet's default, 110, is used."
GPU_NOTE = (
    "GPUs are one extended resource in thousandths of a device: a node's devices are one pool, and that a share must "
    "fit into a single device is not modelled."
)


@dataclass(frozen=True, slots=True)
class Replay:
    """The settings for replaying a trace."""

    gpu_resource: str = DEFAULT_GPU_RESOURCE
    speedup: float = 1.0  # all times are divided by this
    arrivals_only: bool = False  # ignore deletion times: pods stay
    max_pods: int = DEFAULT_MAX_PODS


def read_nodes(path: str, gpu_resource: str = DEFAULT_GPU_RESOURCE) -> list[Node]:
    """Return the nodes of a trace, in file order. Raises ConfigError that names file, line, column and value."""
    names: set[str] = set()
    rows = read_rows(path, NODE_COLUMNS, NODE_GPU_COLUMNS)
    return [_node(row, _new_name(row, "sn", names), gpu_resource) for row in rows]


def read_arrivals(path: str, replay: Replay) -> list[Arrival]:
    """Return the pods of a trace in order of arrival, in seconds since the first one.

    Raises ConfigError that names file, line, column and value.
    """
    names: set[str] = set()
    shared = _SharedParts(replay.gpu_resource)
    recorded: list[tuple[tuple[float, float | None], Pod]] = []
    for row in read_rows(path, POD_COLUMNS, POD_GPU_COLUMNS):
        check_pods(row.where, len(recorded) + 1, replay.max_pods)
        recorded.append((_span(row), _pod(row, _new_name(row, "name", names), shared)))
    return _play(recorded, replay)


def _play(recorded: Iterable[tuple[tuple[float, float | None], Pod]], replay: Replay) -> list[Arrival]:
    ordered = sorted(recorded, key=lambda entry: entry[0][0])
    start = ordered[0][0][0] if ordered else 0.0

    def played(seconds: float) -> float:
        return (seconds - start) / replay.speedup

    return [
        Arrival(
            played(created),
            pod,
            leaves_at_s=None if deleted is None or replay.arrivals_only else played(deleted),
        )
        for (created, deleted), pod in ordered
    ]


def _new_name(row: Row, column: str, names: set[str]) -> str:
    name = row.text(column)
    if name in names:
        raise row.wrong(column, "a name not used on an earlier line")
    names.add(name)
    return name


def _node(row: Row, name: str, gpu_resource: str) -> Node:
    capacity: dict[str, str | int | float] = {
        "cpu": f"{row.count('cpu_milli')}m",
        "memory": f"{row.count('memory_mib')}Mi",
        "pods": "110",
    }
    gpus = row.count("gpu")
    if gpus:
        capacity[gpu_resource] = str(gpus * MILLI)
    labels = {HOSTNAME: name}
    model = row.optional_text("model")
    if model:
        labels[MODEL_LABEL] = model
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        status=NodeStatus(capacity=capacity, allocatable=capacity, conditions=[NodeCondition("Ready", "True")]),
    )


def _span(row: Row) -> tuple[float, float | None]:
    """Return a pod's creation and deletion time in seconds; None if it is never deleted."""
    created = row.seconds("creation_time")
    if not row.optional_text("deletion_time"):
        return created, None
    deleted = row.seconds("deletion_time")
    if deleted < created:
        raise row.wrong("deletion_time", f"at least creation_time, {created:g}")
    return created, deleted


class _SharedParts:
    """Parts of pods of which a trace has few different ones: equal pods share them, so that they are read only once."""

    def __init__(self, gpu_resource: str) -> None:
        self.status = PodStatus()
        self._gpu_resource = gpu_resource
        self._specs: dict[tuple[int, int, int, str], PodSpec] = {}
        self._labels: dict[str, dict[str, str] | None] = {"": None}  # by QoS class

    def spec(self, cpu_milli: int, memory_mib: int, gpu_milli: int, gpu_spec: str) -> PodSpec:
        shape = (cpu_milli, memory_mib, gpu_milli, gpu_spec)
        if shape not in self._specs:
            self._specs[shape] = _pod_spec(*shape, self._gpu_resource)
        return self._specs[shape]

    def labels(self, qos: str) -> dict[str, str] | None:
        if qos not in self._labels:
            self._labels[qos] = {QOS_LABEL: qos}
        return self._labels[qos]


def _pod(row: Row, name: str, shared: _SharedParts) -> Pod:
    gpu_spec = row.optional_text("gpu_spec")
    spec = shared.spec(row.count("cpu_milli"), row.count("memory_mib"), _gpu_milli(row), gpu_spec)
    labels = shared.labels(row.optional_text("qos"))
    return Pod(ObjectMeta(name=name, namespace="default", labels=labels), spec, shared.status)


def _gpu_milli(row: Row) -> int:
    """Return a pod's total GPU request in thousandths of a device."""
    devices, each = row.count("num_gpu"), row.count("gpu_milli")
    if each > MILLI:
        raise row.wrong("gpu_milli", f"at most {MILLI}, one whole device")
    if devices > 1 and each != MILLI:
        raise row.wrong("gpu_milli", f"{MILLI}: only a pod with one GPU may share it")
    return devices * each


def _pod_spec(cpu_milli: int, memory_mib: int, gpu_milli: int, gpu_spec: str, gpu_resource: str) -> PodSpec:
    requests: dict[str, str | int | float] = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    limits: dict[str, str | int | float] | None = None
    if gpu_milli:
        # Kubernetes wants request and limit of an extended resource to be equal.
        limits = {gpu_resource: str(gpu_milli)}
        requests.update(limits)
    resources = ResourceRequirements(requests=requests, limits=limits)
    models = [model for model in gpu_spec.split("|") if model]
    return PodSpec(
        containers=[Container(name="main", resources=resources)],
        priority=0,
        affinity=_models_affinity(models) if models else None,
    )


def _models_affinity(models: list[str]) -> Affinity:
    accepted = SelectorRequirement(key=MODEL_LABEL, operator="In", values=models)
    term = NodeSelectorTerm(match_expressions=[accepted])
    required = NodeSelector(node_selector_terms=[term])
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
