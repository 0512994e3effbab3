"""What an apiserver fills in when an object is created, as far as a scheduler reads it, for clusters without one.

Requests follow from limits, pod-level requests from pod-level limits, host ports from a host network, allocatable
from capacity, priority from the two built-in priority classes. Left out: what depends on other objects (LimitRange,
RuntimeClass, other priority classes), and the tolerations that only delay an eviction.
"""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import Container, ContainerPort, Node, Pod, PodSpec, PodStatus, QuantityMap
from kscheduler.api.resources import CPU, HUGEPAGES_PREFIX, MEMORY, pod_resources

DEFAULT_SCHEDULER_NAME = "default-scheduler"
DEFAULT_NAMESPACE = "default"
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def with_defaults(pod: Pod) -> Pod:
    """The pod as an apiserver would store it. Raises DecodeError if its quantities are needed and cannot be read."""
    spec = pod.spec
    priority = BUILT_IN_PRIORITIES.get(spec.priority_class_name, 0) if spec.priority is None else spec.priority
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        priority=priority,
        preemption_policy=spec.preemption_policy or PREEMPT_LOWER_PRIORITY,
        containers=_containers(spec.containers, spec.host_network),
        init_containers=_containers(spec.init_containers, spec.host_network) if spec.init_containers else None,
    )
    metadata = replace(pod.metadata, namespace=pod.metadata.namespace or DEFAULT_NAMESPACE)
    return replace(pod, metadata=metadata, spec=_with_pod_level_requests(spec))


def node_with_defaults(node: Node) -> Node:
    """The node as an apiserver would store it."""
    if node.status.allocatable is not None or node.status.capacity is None:
        return node
    return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def _containers(containers: list[Container], host_network: bool) -> list[Container]:
    return [_container(container, host_network) for container in containers]


def _container(container: Container, host_network: bool) -> Container:
    resources = container.resources
    if resources is not None and resources.limits:
        requests: QuantityMap = {**resources.limits, **(resources.requests or {})}
        container = replace(container, resources=replace(resources, requests=requests))
    if host_network and container.ports:
        container = replace(container, ports=[_host_port(port) for port in container.ports])
    return container


def _host_port(port: ContainerPort) -> ContainerPort:
    return port if port.host_port else replace(port, host_port=port.container_port)


def _with_pod_level_requests(spec: PodSpec) -> PodSpec:
    """With pod-level limits, a missing pod-level request is what containers ask for, or else the limit."""
    resources = spec.resources
    if resources is None or not resources.limits:
        return spec
    limits = {
        name: amount
        for name, amount in resources.limits.items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    requests = {**limits, **_asked_by_containers(spec), **(resources.requests or {})}
    return replace(spec, resources=replace(resources, requests=requests)) if requests else spec


def _asked_by_containers(spec: PodSpec) -> QuantityMap:
    """cpu and memory as all containers together ask for them; a resource that none names is absent."""
    everyone = [*spec.containers, *(spec.init_containers or ())]
    named = {name for container in everyone if container.resources for name in container.resources.requests or ()}
    bare = replace(spec, resources=None, overhead=None)
    total = pod_resources(Pod(spec=bare, status=PodStatus())).total
    asked: QuantityMap = {CPU: f"{total.cpu_milli}m", MEMORY: total.memory}
    return {name: amount for name, amount in asked.items() if name in named}
