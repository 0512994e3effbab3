"""Extended resources that device classes back: the special claim that stands for a pod's requests of them.

A node that has the resource itself provides it through its device plugin; on others the pod gets devices of the class,
by one claim for all such resources of the pod. Which requests it has depends on the node. Until PreBind creates the
claim it exists in memory only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kscheduler.api.devices import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    EXTENDED_RESOURCE_PREFIX,
    ClaimMeta,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.api.objects import Container, ContainerExtendedResourceRequest, OwnerReference, Pod, PodSpec
from kscheduler.api.resources import is_extended
from kscheduler.snapshot.devices import IN_MEMORY, Devices

Mapping = ContainerExtendedResourceRequest
_Requests = tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]
MAX_KEPT = 256  # specs of pods with extended resources
_RESTARTS = "Always"  # of an init container that runs beside the others, a sidecar


def is_backable(name: str) -> bool:
    """Return True for a resource that a class may back: an extended one, or one named after a class."""
    return is_extended(name) or name.startswith(EXTENDED_RESOURCE_PREFIX)


def new_claim(pod: Pod, rng: random.Random) -> ResourceClaim:
    """Return the special claim of a pod, without requests, as it exists in memory."""
    owner = OwnerReference("v1", "Pod", pod.metadata.name, pod.metadata.uid, controller=True)
    return ResourceClaim(
        ClaimMeta(
            name=IN_MEMORY,
            namespace=pod.metadata.namespace,
            uid=_uid(rng),
            generate_name=f"{pod.metadata.name}-extended-resources-",
            owner_references=[owner],
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def to_create(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim as the apiserver is to create it: without name, uid and status."""
    return ResourceClaim(replace(claim.metadata, name="", uid=""), claim.spec)


def with_requests(claim: ResourceClaim, requests: list[DeviceRequest]) -> ResourceClaim:
    """Return the special claim with these requests."""
    return replace(claim, spec=replace(claim.spec, devices=replace(claim.spec.devices, requests=requests or None)))


class KeptRequests:
    """The requests for all extended resources of a pod, found once for pods that share a spec, as those of a template.

    They are what `requests_for` returns, as long as the same classes back the resources.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._generation = -1
        # id of a spec -> the spec, which keeps the id from meaning another one; and the requests.
        self._known: dict[int, tuple[PodSpec, _Requests | None]] = {}

    def of(self, pod: Pod, resources: Iterable[str]) -> _Requests | None:
        """Return the requests for the extended resources of the pod; None if no class backs one of them."""
        devices, spec = self._devices, pod.spec
        generation = devices.resources_generation + devices.classes_generation
        if generation != self._generation or len(self._known) >= MAX_KEPT:
            self._generation = generation
            self._known.clear()
        of_spec, found = self._known.get(id(spec), (None, None))
        if of_spec is not spec:
            is_backed = all(devices.class_of_resource(name) is not None for name in resources)
            found = requests_for(pod, resources, devices) if is_backed else None
            self._known[id(spec)] = spec, found
        return found


def _uid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def requests_for(
    pod: Pod, resources: Iterable[str], devices: Devices
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    """Return the requests for these extended resources of the pod, and which container uses which of them.

    A container's request is named after the positions of the container and of the resource in it. An init container
    that ends before others start uses their devices; of what such containers need beyond that, the most is requested.
    """
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    init = pod.spec.init_containers or []
    containers = [*init, *pod.spec.containers]
    is_short = [place < len(init) and each.restart_policy != _RESTARTS for place, each in enumerate(containers)]
    for resource in sorted(resources):
        device_class = devices.class_of_resource(resource)
        if device_class is None:
            continue
        ask = _Asking(resource, device_class.metadata.name)
        # 1. Containers that run as long as the pod.
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        for place, container in enumerate(containers):
            if not is_short[place]:
                lasting[place], uses = ask.of(place, container, ())
                mappings += uses
        # 2. Init containers that end before others start. One request serves all of them.
        short: DeviceRequest | None = None
        names: set[str] = set()
        used: list[ContainerExtendedResourceRequest] = []
        for place, container in enumerate(containers):
            if is_short[place]:
                request, uses = ask.of(place, container, lasting[place:])
                used += uses
                if request is not None:
                    names.add(request.name)
                    short = request if short is None or _count(short) < _count(request) else short
        if short is not None:
            used = [replace(use, request_name=short.name) if use.request_name in names else use for use in used]
            requests.append(short)
        requests += [request for request in lasting if request is not None]
        mappings += used
    return sorted(requests, key=lambda request: request.name), mappings


class _Asking:
    """Makes the requests of containers for one extended resource, which a class backs."""

    def __init__(self, resource: str, class_name: str) -> None:
        self._resource = resource
        self._class_name = class_name

    def of(
        self, place: int, container: Container, reusable: Sequence[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
        """Return the request of a container for what `reusable` ones do not give it, and all requests that it uses.

        None if it needs no request of its own.
        """
        asked = (None if container.resources is None else container.resources.requests) or {}
        amount = _amount(asked.get(self._resource))
        if not amount:
            return None, []
        found = 0
        uses: list[ContainerExtendedResourceRequest] = []
        for request in reusable:
            if request is not None:
                found += _count(request)
                uses.append(Mapping(container.name, self._resource, request.name))
                if found >= amount:
                    return None, uses
        name = f"container-{place}-request-{sorted(asked).index(self._resource)}"
        uses.append(Mapping(container.name, self._resource, name))
        exactly = ExactDeviceRequest(
            device_class_name=self._class_name, allocation_mode=EXACT_COUNT, count=amount - found
        )
        return DeviceRequest(name, exactly), uses


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


def _amount(raw: str | int | float | None) -> int:
    """Return a requested amount, 0 for one that is no integer."""
    if raw is None:
        return 0
    try:
        return Quantity.served(raw).as_int64() or 0
    except QuantityError:
        return 0
