"""What the apiserver fills in when an object is created, as far as a scheduler reads it."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import Node, Pod


def admit_pod(pod: Pod) -> Pod:
    """Namespace and priority, as defaulting and the Priority admission plugin set them."""
    if not pod.metadata.namespace:
        pod = replace(pod, metadata=replace(pod.metadata, namespace="default"))
    if pod.spec.priority is None:
        pod = replace(pod, spec=replace(pod.spec, priority=0))
    return pod


def admit_node(node: Node) -> Node:
    """Allocatable defaults to capacity."""
    if node.status.allocatable is None and node.status.capacity is not None:
        node = replace(node, status=replace(node.status, allocatable=node.status.capacity))
    return node
