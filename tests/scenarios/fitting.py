"""Does a pod fit on a node? Worked out from the objects alone, one pod and one node at a time.

The scheduler's tables and kernels are not used, so that both can be compared. Known here: cordons, taints, node
selectors, required node affinity, host ports and resources; nothing else decides in the scenarios.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kscheduler.api.labels import compile_required_node_affinity
from kscheduler.api.objects import Node, Pod, Taint
from kscheduler.api.resources import Resources, node_allocatable, pod_resources
from kscheduler.api.tolerations import tolerates
from kscheduler.errors import DecodeError
from kscheduler.snapshot.pod_info import EVERY_ADDRESS, HostPort, host_ports

FINISHED = ("Succeeded", "Failed")
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
KEEPS_OFF = ("NoSchedule", "NoExecute")


def obstacles(pod: Pod, node: Node, others: Iterable[Pod]) -> list[str]:
    """Why the pod may not run on the node beside these others; empty when it may.

    Others that cannot be read do not count.
    """
    beside = [other for other in others if _is_readable(other)]
    try:
        return [*_closed(pod, node), *_clashes(pod, beside), *_excess(pod, node, beside)]
    except DecodeError as error:
        return [f"cannot be read: {error}"]


def _is_readable(pod: Pod) -> bool:
    try:
        pod_resources(pod)
    except DecodeError:
        return False
    return True


def _excess(pod: Pod, node: Node, others: list[Pod]) -> Iterator[str]:
    """What the pod asks for and the node has not. A node may be overcommitted in what this pod does not ask for."""
    allocatable = node_allocatable(node)
    if len(others) + 1 > allocatable.pods:
        yield f"{len(others) + 1} pods, {allocatable.pods} allowed"
    used: Counter[str] = Counter()
    for other in others:
        used.update(_amounts(pod_resources(other).total))
    offered = _amounts(allocatable.resources)
    for name, amount in _amounts(pod_resources(pod).total).items():
        if amount and used[name] + amount > offered.get(name, 0):
            yield f"{name}: {used[name]} and {amount} requested of {offered.get(name, 0)}"


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        "cpu": resources.cpu_milli,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        **resources.scalars,
    }


def _closed(pod: Pod, node: Node) -> Iterator[str]:
    taints = [taint for taint in node.spec.taints or () if taint.effect in KEEPS_OFF]
    if node.spec.unschedulable:
        taints.append(CORDON)
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in pod.spec.tolerations or ()):
            yield f"taint {taint.key}"
    required = compile_required_node_affinity(pod)
    if required is not None and not required.matches(node.metadata.labels or {}, node.metadata.name):
        yield "node selector or affinity"


def _clashes(pod: Pod, others: Iterable[Pod]) -> Iterator[str]:
    taken = [port for other in others for port in host_ports(other)]
    for wanted in host_ports(pod):
        if any(_same(wanted, port) for port in taken):
            yield f"host port {wanted.port}"


def _same(one: HostPort, other: HostPort) -> bool:
    return (one.protocol, one.port) == (other.protocol, other.port) and (
        one.ip == other.ip or EVERY_ADDRESS in (one.ip, other.ip)
    )
