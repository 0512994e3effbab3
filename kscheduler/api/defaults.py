"""The defaults that an apiserver sets when an object is created, as far as a scheduler reads them, for simulations.

- Requests follow from limits, pod-level requests from the containers' requests or from pod-level limits, and pod-level
  limits of huge pages from those of the containers.
- Host ports follow from a host network, allocatable from capacity, priority from the two built-in priority classes.
- Azure disks get their default kind, RBD images their default pool, and a namespace the label with its name.

Defaults that depend on other objects (LimitRange, RuntimeClass, other priority classes) are left out, and so are the
tolerations that only delay an eviction.
"""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.objects import (
    AzureDisk,
    Container,
    ContainerPort,
    Namespace,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    QuantityMap,
    ResourceRequirements,
    Volume,
)
from kscheduler.api.resources import CPU, HUGEPAGES_PREFIX, MEMORY, pod_resources

DEFAULT_SCHEDULER_NAME = "default-scheduler"
DEFAULT_NAMESPACE = "default"
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the label of a namespace that repeats its name
SHARED_DISK = "Shared"  # the kind of an azureDisk that names none: several disks in one storage account
RBD_POOL = "rbd"
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def with_defaults(pod: Pod, *, completes_pod_level_requests: bool = False) -> Pod:
    """Return the pod as an apiserver would store it.

    `completes_pod_level_requests`: missing pod-level requests are added to any pod with pod-level resources, as the
    apiserver does since 1.37, not only to one with pod-level limits. Raises DecodeError for a malformed quantity that
    a default depends on.
    """
    spec = pod.spec
    priority = BUILT_IN_PRIORITIES.get(spec.priority_class_name, 0) if spec.priority is None else spec.priority
    spec = replace(
        spec,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        priority=priority,
        preemption_policy=spec.preemption_policy or PREEMPT_LOWER_PRIORITY,
        containers=_containers(spec.containers, spec.host_network),
        init_containers=_containers(spec.init_containers, spec.host_network) if spec.init_containers else None,
        volumes=[_volume(volume) for volume in spec.volumes] if spec.volumes else spec.volumes,
    )
    spec = _with_pod_level_huge_pages(spec)
    resources = spec.resources
    if resources is not None and (resources.limits or (completes_pod_level_requests and resources.requests)):
        spec = _with_pod_level_requests(spec, resources)
    metadata = replace(pod.metadata, namespace=pod.metadata.namespace or DEFAULT_NAMESPACE)
    return replace(pod, metadata=metadata, spec=spec)


def node_with_defaults(node: Node) -> Node:
    """Return the node as an apiserver would store it."""
    if node.status.allocatable is not None or node.status.capacity is None:
        return node
    return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def namespace_with_defaults(namespace: Namespace) -> Namespace:
    """Return the namespace as an apiserver would store it."""
    metadata = namespace.metadata
    labels = {**(metadata.labels or {}), NAMESPACE_NAME: metadata.name}
    return replace(namespace, metadata=replace(metadata, labels=labels)) if metadata.name else namespace


def azure_disk_with_defaults(disk: AzureDisk | None) -> AzureDisk | None:
    """Return an Azure disk of a pod or a PersistentVolume as an apiserver would store it."""
    return disk if disk is None or disk.kind is not None else replace(disk, kind=SHARED_DISK)


def _volume(volume: Volume) -> Volume:
    rbd = volume.rbd
    if rbd is not None and not rbd.pool:
        volume = replace(volume, rbd=replace(rbd, pool=RBD_POOL))
    if volume.azure_disk is not None:
        volume = replace(volume, azure_disk=azure_disk_with_defaults(volume.azure_disk))
    return volume


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


def _with_pod_level_huge_pages(spec: PodSpec) -> PodSpec:
    """Add missing pod-level limits of huge pages, the sum of the containers', to a pod with pod-level resources."""
    resources = spec.resources
    if resources is None or not (resources.limits or resources.requests):
        return spec
    named = {**(resources.limits or {}), **(resources.requests or {})}
    missing = {name: amount for name, amount in _huge_pages_of_containers(spec).items() if name not in named}
    if not missing:
        return spec
    return replace(spec, resources=replace(resources, limits={**(resources.limits or {}), **missing}))


def _huge_pages_of_containers(spec: PodSpec) -> QuantityMap:
    """Return the limits of huge pages of all containers, added up as requests are."""
    containers, init_containers = _huge_page_limits(spec.containers), _huge_page_limits(spec.init_containers or [])
    everyone = [each.resources for each in (*containers, *init_containers) if each.resources]
    named = {name for resources in everyone for name in resources.requests or ()}
    bare = replace(spec, resources=None, overhead=None, containers=containers, init_containers=init_containers)
    scalars = pod_resources(Pod(spec=bare, status=PodStatus())).total.scalars
    return {name: scalars.get(name, 0) for name in sorted(named)}


def _huge_page_limits(containers: list[Container]) -> list[Container]:
    """Return the containers with their limits of huge pages as requests, and without any other requests."""
    limits = [container.resources.limits or {} if container.resources else {} for container in containers]
    return [
        replace(
            container,
            resources=ResourceRequirements(
                requests={name: amount for name, amount in own.items() if name.startswith(HUGEPAGES_PREFIX)}
            ),
        )
        for container, own in zip(containers, limits, strict=True)
    ]


def _with_pod_level_requests(spec: PodSpec, resources: ResourceRequirements) -> PodSpec:
    """Add missing pod-level requests: the containers' requests, or else the pod-level limits."""
    limits = {
        name: amount
        for name, amount in (resources.limits or {}).items()
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
    }
    requests = {**limits, **_asked_by_containers(spec), **(resources.requests or {})}
    return replace(spec, resources=replace(resources, requests=requests)) if requests else spec


def _asked_by_containers(spec: PodSpec) -> QuantityMap:
    """Return the cpu and memory that all containers request, added up; a resource that none requests is absent."""
    everyone = [*spec.containers, *(spec.init_containers or ())]
    named = {name for container in everyone if container.resources for name in container.resources.requests or ()}
    bare = replace(spec, resources=None, overhead=None)
    total = pod_resources(Pod(spec=bare, status=PodStatus())).total
    asked: QuantityMap = {CPU: f"{total.cpu_milli}m", MEMORY: total.memory}
    return {name: amount for name, amount in asked.items() if name in named}
