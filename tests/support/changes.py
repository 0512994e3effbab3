"""What people and controllers do to nodes and pods: each function gives a change for `World.change_node` or `_pod`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kscheduler.api.objects import Node, Pod, Taint, Toleration
from kscheduler.simulator.cluster import Cluster

NodeChange = Callable[[Node], Node]
PodChange = Callable[[Pod], Pod]


def cordon(unschedulable: bool = True) -> NodeChange:
    return lambda node: replace(node, spec=replace(node.spec, unschedulable=unschedulable))


def taint(key: str | None = "maintenance") -> NodeChange:
    """One taint in place of all others; None removes them."""
    taints = None if key is None else [Taint(key, "", "NoExecute")]
    return lambda node: replace(node, spec=replace(node.spec, taints=taints))


def relabel(**labels: str) -> NodeChange:
    return lambda node: replace(
        node, metadata=replace(node.metadata, labels={**(node.metadata.labels or {}), **labels})
    )


def resize(**amounts: str) -> NodeChange:
    """Another allocatable for these resources."""
    return lambda node: replace(
        node, status=replace(node.status, allocatable={**(node.status.allocatable or {}), **amounts})
    )


def heartbeat(text: str) -> NodeChange:
    """A change that means nothing to a scheduler."""
    return lambda node: replace(node, metadata=replace(node.metadata, annotations={"beat": text}))


def select(**labels: str) -> PodChange:
    return lambda pod: replace(pod, spec=replace(pod.spec, node_selector=labels))


def tolerate(key: str) -> PodChange:
    added = Toleration(key=key, operator="Exists")
    return lambda pod: replace(pod, spec=replace(pod.spec, tolerations=[*(pod.spec.tolerations or []), added]))


def label_pod(**labels: str) -> PodChange:
    return lambda pod: replace(pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), **labels}))


def open_gates(left: int = 0) -> PodChange:
    """Keep the last `left` gates."""

    def change(pod: Pod) -> Pod:
        gates = list(pod.spec.scheduling_gates or ())
        return replace(pod, spec=replace(pod.spec, scheduling_gates=gates[len(gates) - left :] or None))

    return change


def set_pod_phase(cluster: Cluster, key: str, phase: str) -> None:
    """Set the pod's phase (Running, Succeeded, Failed), as its kubelet would."""
    pod = cluster.pods[key]
    if pod.status.phase != phase:
        cluster.update_pod(replace(pod, status=replace(pod.status, phase=phase)))
