"""Converts requests of pods and capacities of nodes to integers: CPU in thousandths, other resources in whole units."""

from __future__ import annotations

from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, node_allocatable, pod_resources

Amounts = dict[str, int]  # resource name -> amount


def pod_amounts(pod: Pod) -> Amounts:
    """Return a pod's requests, with 1 for the resource "pods". Raises DecodeError for an unreadable quantity."""
    return {**_named(pod_resources(pod).total), PODS: 1}


def node_amounts(node: Node) -> Amounts:
    """Return a node's allocatable amounts. Raises DecodeError for an unreadable quantity."""
    offered = node_allocatable(node)
    return {**_named(offered.resources), PODS: offered.pods}


def _named(resources: Resources) -> Amounts:
    native = {CPU: resources.cpu_milli, MEMORY: resources.memory, EPHEMERAL_STORAGE: resources.ephemeral_storage}
    return {name: amount for name, amount in native.items() if amount} | dict(resources.scalars)
