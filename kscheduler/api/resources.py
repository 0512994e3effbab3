"""The requests of pods and the allocatable resources of nodes, as integers.

The arithmetic is kube-scheduler's (k8s.io/component-helpers/resource.PodRequests and its callers):

- Containers and sidecars are added up. Each init container needs its own request on top of the sidecars before it. The
  pod needs the greater of both, for each resource.
- Pod-level requests then replace cpu, memory and hugepages, and overhead is added last.
- What the devices of its claims take of the node, as its status says, is added to that of the containers
  (`counts_claims`), if the feature gate DRANodeAllocatableResources is on.
- For a container that is resized in place, the greatest of the requested, granted and used amounts counts. If the
  resize is known to be infeasible, the requested amount does not count. Since 1.37 these three are instead added up
  separately for the whole pod, or taken from the pod's status, and the greatest of the sums counts
  (`sums_resizes_apart`).

cpu is in thousandths, everything else in whole units, rounded up once, at the end. Results are cached by the amounts
that they depend on, so that the pods of one workload cost one look-up each and share one PodResources.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.api.objects import (
    Container,
    ContainerStatus,
    Node,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodSpec,
    PodStatus,
    QuantityMap,
    RawQuantity,
)
from kscheduler.api.quantity import MAX_INT64, milli_to_units, parse_uncapped_milli, parse_units
from kscheduler.errors import DecodeError
from kscheduler.input.names import is_qualified_name

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
_QUOTA_PREFIX = "requests."

# Scoring counts a container without a request as asking for this, so that such pods spread (kube-scheduler's values).
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

# Distinct request shapes are few (151 in a trace of 8,152 pods); the bounds only guard against a hostile stream.
_POD_SHAPES = 16_384
_NODE_SHAPES = 16_384
_NAMES = 4_096

_NO_SCALARS: Mapping[str, int] = MappingProxyType({})
_CLAIM_STATUSES = "status.nodeAllocatableResourceClaimStatuses"


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts of resources: cpu in thousandths, memory and ephemeral storage in bytes, others in whole units."""

    cpu_milli: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalars: Mapping[str, int] = field(default_factory=lambda: _NO_SCALARS, hash=False)  # name -> amount, in name order

    def amount(self, name: str) -> int:
        """Return the amount of the resource with this name; 0 if there is none of it."""
        if name == CPU:
            return self.cpu_milli
        if name == MEMORY:
            return self.memory
        return self.ephemeral_storage if name == EPHEMERAL_STORAGE else self.scalars.get(name, 0)


@dataclass(frozen=True, slots=True)
class PodResources:
    """A pod's requests in the forms that scheduling uses."""

    total: Resources  # what Filter and the accounting on a node use
    containers_only: Resources  # without pod-level requests: what the Fit score uses for the pod being scheduled
    non_zero_cpu_milli: int  # with scoring defaults: what the accounting on a node uses
    non_zero_memory: int
    score_cpu_milli: int  # with scoring defaults, without pod-level requests: the Fit score, as above
    score_memory: int
    names: frozenset[str] = field(compare=False)  # resources that are requested, if only an amount of zero

    @property
    def requests(self) -> dict[str, int]:
        """Return `total` by resource name, cpu in thousandths; resources with a request of zero may be absent."""
        named = {CPU: self.total.cpu_milli, MEMORY: self.total.memory, EPHEMERAL_STORAGE: self.total.ephemeral_storage}
        return {name: amount for name, amount in named.items() if amount} | dict(self.total.scalars)


@dataclass(frozen=True, slots=True)
class NodeAllocatable:
    resources: Resources
    pods: int  # how many pods may be on the node


def pod_resources(pod: Pod, *, sums_resizes_apart: bool = False, counts_claims: bool = False) -> PodResources:
    """Return a pod's requests. Raises DecodeError, naming field and value, for malformed or negative amounts.

    `sums_resizes_apart`: for a pod that is resized in place, add up requested, granted and used amounts separately, as
    kube-scheduler does since 1.37. `counts_claims`: add what the pod's devices take of its node, as its status says.
    """
    spec, status = pod.spec, pod.status
    if counts_claims and status.node_allocatable_resource_claim_statuses:
        shape = _shape(pod)._replace(of_claims=_of_claims(status.node_allocatable_resource_claim_statuses))
        return _of_shape(shape, sums_resizes_apart and depends_on_status(pod))
    containers = spec.containers
    if (
        len(containers) == 1
        and not spec.init_containers
        and spec.overhead is None
        and spec.resources is None
        and not status.container_statuses
        and status.resources is None
        and not (sums_resizes_apart and is_resize_infeasible(pod))
    ):
        resources = containers[0].resources
        return _of_one_container(tuple(resources.requests.items()) if resources and resources.requests else ())
    return _of_parts(pod, sums_resizes_apart)


def stated_resources(pod: Pod) -> tuple[dict[str, int], dict[str, int]]:
    """Return the requests and the limits that a pod's spec states, by resource name, in thousandths of each resource.

    Statuses do not count. Overhead is added to requests, and to limits above zero. Source: PodRequests and PodLimits of
    k8s.io/component-helpers/resource without options. Raises DecodeError for malformed or negative amounts.
    """
    requests, limits = _stated(pod, "requests"), _stated(pod, "limits")
    overhead = _parse(_items(pod.spec.overhead), "spec.overhead")
    _add(requests, overhead)
    _add(limits, {name: amount for name, amount in overhead.items() if limits.get(name)})
    return requests, limits


def stated_by_containers(pod: Pod, kind: str) -> dict[str, int]:
    """Return the "requests" or the "limits" of all containers together, as `stated_resources`, without pod-level ones.

    Raises DecodeError for malformed or negative amounts.
    """
    spec = pod.spec
    return _sum(
        [stated_by(each, kind) for each in spec.containers],
        [(stated_by(each, kind), _is_sidecar(each)) for each in spec.init_containers or ()],
    )


def stated_by(part: Container | PodSpec, kind: str) -> dict[str, int]:
    """Return the "requests" or the "limits" of a container, or those of the pod as a whole, in thousandths.

    Raises DecodeError for malformed or negative amounts.
    """
    return _parse(_items(getattr(part.resources, kind, None)), f"spec: resources.{kind}")


def claimed_resources(
    statuses: Iterable[NodeAllocatableResourceClaimStatus], container: str | None = None
) -> dict[str, int]:
    """Return what devices take of their node, by resource name, in thousandths of each resource.

    `container`: only what counts for this one: of each claim that it uses the whole, with its overhead for one
    container. Raises DecodeError for malformed amounts.
    """
    total: dict[str, Quantity] = {}
    try:
        for status in statuses:
            users = status.containers or ()
            if container is None:
                _add_claim(total, status, len(users))
            elif container in users:
                _add_claim(total, status, 1)
    except QuantityError as error:
        raise DecodeError(f"{_CLAIM_STATUSES}: {error}") from error
    return {name: parse_uncapped_milli(str(amount), f"{_CLAIM_STATUSES}[{name}]") for name, amount in total.items()}


def is_of_pods(name: str) -> bool:
    """Return True for a resource of which pods as a whole can request some: cpu, memory and hugepages."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def depends_on_status(pod: Pod) -> bool:
    """Return True if the kubelet has reported resources of the pod or its containers, or that a resize is infeasible.

    The pod then may count for other amounts than its spec requests.
    """
    status = pod.status
    if status.container_statuses or status.init_container_statuses or status.resources:
        return True
    return bool(status.conditions) and is_resize_infeasible(pod)


def is_resize_infeasible(pod: Pod) -> bool:
    """Return True if the kubelet has found that the pod cannot be resized in place as requested."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def node_allocatable(node: Node) -> NodeAllocatable:
    """Return a node's allocatable resources, or its capacity if it has none, as the apiserver does.

    Raises DecodeError, naming field and value, for malformed or negative amounts.
    """
    if node.status.allocatable:
        return _of_node("status.allocatable", tuple(node.status.allocatable.items()))
    return _of_node("status.capacity", tuple((node.status.capacity or {}).items()))


@functools.lru_cache(maxsize=_NAMES)
def is_scalar(name: str) -> bool:
    """Return True for a resource that is counted by name, such as an extended one. Other unknown names are ignored."""
    return (
        name.startswith((HUGEPAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX)) or "kubernetes.io/" in name or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Return True for an extended resource: a qualified name with a domain other than *kubernetes.io."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)  # the form in which a ResourceQuota names it


# --- shapes: everything a pod's requests follow from, and nothing else ------------------------------------------

_Items = tuple[tuple[str, RawQuantity], ...]  # resource name, quantity


class _Actual(NamedTuple):
    """The resources in the status of a container or a pod that can be resized in place."""

    position: int  # in the list of statuses, for messages
    in_use: _Items
    granted: _Items
    has_resources: bool  # is `resources` in the status, if only for limits?


class _ContainerShape(NamedTuple):
    requests: _Items
    actual: _Actual | None
    is_sidecar: bool = False


class _PodShape(NamedTuple):
    containers: tuple[_ContainerShape, ...]
    init_containers: tuple[_ContainerShape, ...]
    pod_level: _Items
    pod_level_actual: _Actual | None
    overhead: _Items
    is_resize_infeasible: bool
    of_claims: tuple[tuple[str, int], ...] = ()  # resource name, thousandths: what devices take of the node


def _shape(pod: Pod) -> _PodShape:
    spec, status = pod.spec, pod.status
    running, initial = _statuses(status.container_statuses), _statuses(status.init_container_statuses)
    return _PodShape(
        containers=tuple(_ContainerShape(_requests(c), running.get(c.name)) for c in spec.containers),
        init_containers=tuple(
            _ContainerShape(_requests(c), initial.get(c.name), _is_sidecar(c)) for c in spec.init_containers or ()
        ),
        pod_level=_items(spec.resources.requests) if spec.resources else (),
        pod_level_actual=_actual(0, status),
        overhead=_items(spec.overhead),
        is_resize_infeasible=is_resize_infeasible(pod),
    )


def _items(quantities: QuantityMap | None) -> _Items:
    return tuple(quantities.items()) if quantities else ()


def _requests(container: Container) -> _Items:
    return _items(container.resources.requests) if container.resources else ()


def _is_sidecar(container: Container) -> bool:
    """Return True for an init container that keeps running, i.e. with restartPolicy Always."""
    return container.restart_policy == "Always"


def _statuses(statuses: Iterable[ContainerStatus] | None) -> dict[str, _Actual]:
    """Return the resources in the statuses by container name, without statuses that have none."""
    found = ((status.name, _actual(position, status)) for position, status in enumerate(statuses or ()))
    return {name: actual for name, actual in found if actual is not None}


def _actual(position: int, status: ContainerStatus | PodStatus) -> _Actual | None:
    if status.resources is None and not status.allocated_resources:
        return None
    in_use = _items(status.resources.requests) if status.resources else ()
    return _Actual(position, in_use, _items(status.allocated_resources), status.resources is not None)


# --- by identity ------------------------------------------------------------------------------------------------

# The parts of a pod that its requests follow from. Pods of one template share them (see `api.sharing`), so that most
# pods are known by the addresses of their parts, without a look inside. What is remembered holds on to the parts, so
# an address cannot come to mean another object.
_parts_of = attrgetter(
    "spec.containers",
    "spec.init_containers",
    "spec.overhead",
    "spec.resources",
    "status.container_statuses",
    "status.init_container_statuses",
    "status.resources",
    "status.allocated_resources",
    "status.conditions",
)
_TEMPLATES = 4_096
_by_parts: dict[tuple[int, ...], tuple[tuple[object, ...], PodResources]] = {}


def _of_parts(pod: Pod, sums_resizes_apart: bool) -> PodResources:
    parts = _parts_of(pod)
    key = (*map(id, parts), sums_resizes_apart)
    known = _by_parts.get(key)
    if known is not None:
        return known[1]
    resources = _of_shape(_shape(pod), sums_resizes_apart and depends_on_status(pod))
    if len(_by_parts) >= _TEMPLATES:
        _by_parts.clear()
    _by_parts[key] = (parts, resources)
    return resources


# --- arithmetic, on thousandths of every resource ---------------------------------------------------------------

_Amounts = dict[str, int]  # resource name -> thousandths

_NOTHING_ACTUAL: tuple[_Amounts, _Amounts] = ({}, {})  # amounts in use, granted amounts
_DEFAULTS: _Amounts = {CPU: DEFAULT_CPU_MILLI, MEMORY: DEFAULT_MEMORY * 1000}


class _Part(NamedTuple):
    """A container's requests: as in its spec, as its status reports them, and as they count by themselves."""

    specified: _Amounts
    in_use: _Amounts
    granted: _Amounts
    effective: _Amounts
    is_sidecar: bool


@functools.lru_cache(maxsize=_POD_SHAPES)
def _of_one_container(requests: _Items) -> PodResources:
    return _of_shape(_PodShape((_ContainerShape(requests, None),), (), (), None, (), False), False)


@functools.lru_cache(maxsize=_POD_SHAPES)
def _of_shape(shape: _PodShape, sums_resizes_apart: bool) -> PodResources:
    # 1. Read every amount, once.
    is_infeasible = shape.is_resize_infeasible
    containers = _parts(shape.containers, "containers", "containerStatuses", is_infeasible)
    init_containers = _parts(shape.init_containers, "initContainers", "initContainerStatuses", is_infeasible)
    actual = _read_actual(shape.pod_level_actual, "status")
    pod_level = _pod_level(shape, actual, sums_resizes_apart)
    overhead = _parse(shape.overhead, "spec.overhead")
    of_claims = dict(shape.of_claims)

    def counted(defaults: _Amounts) -> _Amounts:
        """Return the requests with pod-level ones and overhead. `defaults`: of containers that request nothing."""
        if sums_resizes_apart:
            found = _largest_sum(containers, init_containers, actual, is_infeasible, defaults, of_claims)
        else:
            found = _sum_of(containers, init_containers, lambda part: defaults | part.effective)
            _add(found, of_claims)
        found |= pod_level
        _add(found, overhead)
        return found

    # 2. What counts for Filter and on the node.
    total = counted({})

    # 3. The same with scoring defaults. A pod-level request takes the place of the defaults of its containers.
    has_pod_level = any(map(is_of_pods, dict(shape.pod_level)))
    non_zero = counted({name: amount for name, amount in _DEFAULTS.items() if not has_pod_level or name not in total})

    # 4. What the Fit score sees of a pod that is not on a node yet: neither pod-level requests nor statuses.
    specified = _sum_of(containers, init_containers, lambda part: part.specified)
    _add(specified, overhead)
    score = _sum_of(containers, init_containers, lambda part: _DEFAULTS | part.specified)
    _add(score, overhead)

    return PodResources(
        total=_rounded(total),
        containers_only=_rounded(specified),
        non_zero_cpu_milli=min(non_zero.get(CPU, 0), MAX_INT64),
        non_zero_memory=milli_to_units(non_zero.get(MEMORY, 0)),
        score_cpu_milli=min(score.get(CPU, 0), MAX_INT64),
        score_memory=milli_to_units(score.get(MEMORY, 0)),
        names=frozenset(total),
    )


def _parts(
    shapes: tuple[_ContainerShape, ...], list_name: str, statuses: str, is_resize_infeasible: bool
) -> list[_Part]:
    parts = []
    for index, shape in enumerate(shapes):
        specified = _parse(shape.requests, f"spec.{list_name}[{index}].resources.requests")
        effective, (in_use, granted) = specified, _NOTHING_ACTUAL
        if shape.actual is not None:
            in_use, granted = _read_actual(shape.actual, f"status.{statuses}[{shape.actual.position}]")
            if shape.actual.has_resources and (shape.is_sidecar or list_name == "containers"):
                effective = _largest({} if is_resize_infeasible else specified, in_use, granted)
        parts.append(_Part(specified, in_use, granted, effective, shape.is_sidecar))
    return parts


def _stated(pod: Pod, kind: str) -> _Amounts:
    """Return the "requests" or the "limits" of a pod as its spec has them, without overhead."""
    of_pod = stated_by(pod.spec, kind)
    return stated_by_containers(pod, kind) | {name: amount for name, amount in of_pod.items() if is_of_pods(name)}


def _read_actual(actual: _Actual | None, path: str) -> tuple[_Amounts, _Amounts]:
    """Return (amounts in use, granted amounts); both empty without a status."""
    if actual is None:
        return _NOTHING_ACTUAL
    return (
        _parse(actual.in_use, f"{path}.resources.requests"),
        _parse(actual.granted, f"{path}.allocatedResources"),
    )


def _pod_level(shape: _PodShape, actual: tuple[_Amounts, _Amounts], sums_resizes_apart: bool) -> _Amounts:
    """Return pod-level requests, which exist for cpu, memory and hugepages only."""
    amounts = _parse(shape.pod_level, "spec.resources.requests")
    requested = {name: amount for name, amount in amounts.items() if is_of_pods(name)}
    if not requested or shape.pod_level_actual is None or not shape.pod_level_actual.has_resources:
        return requested
    effective = _largest({} if shape.is_resize_infeasible else requested, *actual)
    if sums_resizes_apart:
        return {name: amount for name, amount in effective.items() if is_of_pods(name)}
    return {name: effective.get(name, 0) for name in requested}


def _largest_sum(
    containers: list[_Part],
    init_containers: list[_Part],
    of_pod: tuple[_Amounts, _Amounts],
    is_infeasible: bool,
    defaults: _Amounts,
    of_claims: _Amounts,
) -> _Amounts:
    """Return, for each resource, the greatest of the requested, granted and used amounts, each added up by itself.

    `of_pod`: the used and granted amounts in the pod's own status, which count instead of the containers' if there are
    both. `of_claims`: what devices take, which is part of the used amounts, and of the granted ones of the pod's own
    status, already.
    """

    def granted(part: _Part) -> _Amounts:
        return part.granted or ({} if is_infeasible else part.specified)

    def added_up(amounts_of: Callable[[_Part], _Amounts]) -> _Amounts:
        return _sum_of(containers, init_containers, lambda part: defaults | amounts_of(part))

    asked: _Amounts = {}
    if not is_infeasible:
        asked = added_up(lambda part: part.specified)
        _add(asked, of_claims)
    if all(of_pod):
        return _largest(asked, *of_pod)
    given = added_up(granted)
    _add(given, of_claims)
    return _largest(asked, given, added_up(lambda part: part.in_use or granted(part)))


def _of_claims(statuses: Iterable[NodeAllocatableResourceClaimStatus]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(claimed_resources(statuses).items()))


def _add_claim(total: dict[str, Quantity], status: NodeAllocatableResourceClaimStatus, users: int) -> None:
    """Add what the devices of a claim take, if so many containers use it."""
    for name, amount in (status.resources or {}).items():
        _add_quantity(total, name, amount)
    for mapped in status.mapping or ():
        _add_quantity(total, mapped.name, mapped.quantity)
    for overhead in status.overhead or ():
        _add_quantity(total, overhead.name, overhead.per_pod)
        for _ in range(users):
            _add_quantity(total, overhead.name, overhead.per_container)


def _add_quantity(total: dict[str, Quantity], name: str, amount: RawQuantity | None) -> None:
    if amount is not None:
        found, more = total.get(name), Quantity.served(amount)
        total[name] = more if found is None else found.add(more)


def _largest(*all_amounts: _Amounts) -> _Amounts:
    """Return the greatest amount of each resource."""
    found: _Amounts = {}
    for amounts in all_amounts:
        _raise_to(found, amounts)
    return found


def _parse(items: _Items, path: str) -> _Amounts:
    found = {}
    for name, quantity in items:
        amount = parse_uncapped_milli(quantity, f"{path}[{name}]")
        if amount < 0:
            raise DecodeError(f'{path}[{name}]: expected an amount of 0 or more, got "{quantity}"')
        found[name] = amount
    return found


def _sum_of(containers: list[_Part], init_containers: list[_Part], amounts_of: Callable[[_Part], _Amounts]) -> _Amounts:
    """Return what a pod needs if each of its containers needs `amounts_of(container)`."""
    return _sum(
        [amounts_of(part) for part in containers], [(amounts_of(part), part.is_sidecar) for part in init_containers]
    )


def _sum(containers: list[_Amounts], init_containers: list[tuple[_Amounts, bool]]) -> _Amounts:
    """Return, for each resource, the greater of the containers' sum with sidecars and any init container's need."""
    running: _Amounts = {}
    for amounts in containers:
        _add(running, amounts)
    sidecars: _Amounts = {}
    most: _Amounts = {}
    for amounts, is_sidecar in init_containers:
        if is_sidecar:
            _add(running, amounts)
            _add(sidecars, amounts)
            _raise_to(most, sidecars)
        else:
            needed = dict(amounts)
            _add(needed, sidecars)
            _raise_to(most, needed)
    _raise_to(running, most)
    return running


def _add(to: _Amounts, amounts: _Amounts) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount


def _raise_to(floor: _Amounts, amounts: _Amounts) -> None:
    """Raise each resource in `floor` to at least its amount in `amounts`."""
    for name, amount in amounts.items():
        floor[name] = max(floor.get(name, 0), amount)


def _rounded(amounts: _Amounts) -> Resources:
    scalars = {name: milli_to_units(amount) for name, amount in sorted(amounts.items()) if is_scalar(name)}
    return Resources(
        cpu_milli=min(amounts.get(CPU, 0), MAX_INT64),
        memory=milli_to_units(amounts.get(MEMORY, 0)),
        ephemeral_storage=milli_to_units(amounts.get(EPHEMERAL_STORAGE, 0)),
        scalars=MappingProxyType(scalars) if scalars else _NO_SCALARS,
    )


# --- nodes ------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=_NODE_SHAPES)
def _of_node(path: str, items: _Items) -> NodeAllocatable:
    amounts = _parse(items, path)
    pods = parse_units(dict(items).get(PODS, 0), f"{path}[{PODS}]")
    return NodeAllocatable(_rounded(amounts), pods)
