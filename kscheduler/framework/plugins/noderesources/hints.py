"""Queueing hints of NodeResourcesFit, for pods that lacked room; the rules are kube-scheduler's.

What may help: pods that leave, or request less than before of a resource that the waiting pod requests; new nodes that
could take the pod if they were empty; nodes that could do so and got more of what it requests, or room for more pods;
and device classes that back an extended resource which it requests.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import compress

from kscheduler.api.devices import EXTENDED_RESOURCE_PREFIX, DeviceClass
from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PodResources,
    Resources,
    node_allocatable,
    pod_resources,
)
from kscheduler.framework.events import Grouping
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo

Request = tuple[tuple[str, int], ...]  # (resource, amount), all above zero, by name

MAX_REQUESTS = 1_024  # that are known by the object that states them
_requests: dict[int, tuple[PodResources, Request, frozenset[str]]] = {}


class Hints:
    """Queueing hints of NodeResourcesFit. `is_ignored` returns True for resources that the plugin ignores.

    `sums_resizes_apart`: how pods that are resized in place count; see `api.resources.pod_resources`.
    """

    def __init__(
        self, is_ignored: Callable[[str], bool], devices: Devices, *, sums_resizes_apart: bool = False
    ) -> None:
        self._is_ignored = is_ignored
        self._devices = devices
        self._sums_resizes_apart = sums_resizes_apart
        self.for_pods = Grouping(_names_requested)
        self.for_nodes = Grouping(_request_of, lambda: RequestIndex(is_ignored, devices))

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if a pod has left its node (`new` None), or requests less of what the waiting pod requests."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return True
        if new.metadata.uid == waiting.metadata.uid:
            return True
        if not new.spec.node_name:
            return False
        apart = self._sums_resizes_apart
        before = _amounts(pod_resources(old, sums_resizes_apart=apart).total)
        after = _amounts(pod_resources(new, sums_resizes_apart=apart).total)
        return any(before.get(name, 0) > after.get(name, 0) for name, _ in _request(waiting))

    def after_node(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True for a new node (`old` None), or one with more allocatable, on which the waiting pod may fit."""
        if not isinstance(new, Node):
            return True
        request, offer = _request(waiting), node_allocatable(new)
        amounts = _with_backed(_amounts(offer.resources), self._devices)
        if offer.pods < 1 or any(
            amount > amounts.get(name, 0) and not self._is_ignored(name) for name, amount in request
        ):
            return False
        if not isinstance(old, Node):
            return True
        offered = node_allocatable(old)
        before = _amounts(offered.resources)
        return offer.pods > offered.pods or any(amounts.get(name, 0) > before.get(name, 0) for name, _ in request)

    def after_class(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if a device class is new, or backs another resource, and the waiting pod requests it."""
        if not isinstance(new, DeviceClass):
            return True
        requested = {name for name, _ in _request(waiting)}
        backed = new.spec.extended_resource_name
        if isinstance(old, DeviceClass):
            if (old.spec.extended_resource_name or "") == (backed or ""):
                return False
        elif EXTENDED_RESOURCE_PREFIX + new.metadata.name in requested:
            return True
        return backed is not None and backed in requested


class RequestIndex:
    """A hint index over the requests of waiting pods: finds those for which a node's allocatable is enough.

    Requests are grouped by the set of resources they name, so that a node that got more of one resource yields only
    those that request it. Within a group they are sorted by the amount of each resource; the resource that leaves the
    fewest candidates is used.
    """

    def __init__(self, is_ignored: Callable[[str], bool], devices: Devices) -> None:
        self._is_ignored = is_ignored
        self._devices = devices
        self._by_names: dict[tuple[str, ...], _Ordered] = {}  # resources asked for -> the requests for just these

    def add(self, key: Hashable) -> None:
        request = _as_request(key)
        names = tuple(name for name, _ in request)
        ordered = self._by_names.get(names)
        if ordered is None:
            ordered = self._by_names[names] = _Ordered([name for name in names if not self._is_ignored(name)])
        ordered.add(request)

    def remove(self, key: Hashable) -> None:
        request = _as_request(key)
        names = tuple(name for name, _ in request)
        ordered = self._by_names[names]
        ordered.remove(request)
        if not len(ordered):
            del self._by_names[names]

    def find(self, old: object, new: object) -> Iterable[Hashable]:
        if not isinstance(new, Node):
            for ordered in list(self._by_names.values()):
                yield from ordered.all()
            return
        offer = node_allocatable(new)
        if offer.pods < 1:
            return
        amounts = _with_backed(_amounts(offer.resources), self._devices)
        offered = node_allocatable(old) if isinstance(old, Node) else None
        has_more_places = offered is None or offer.pods > offered.pods
        before = _amounts(offered.resources) if offered is not None else {}
        grown = {name for name, amount in amounts.items() if amount > before.get(name, 0)}
        for names, ordered in list(self._by_names.items()):
            if has_more_places or not grown.isdisjoint(names):
                yield from ordered.up_to(amounts)


class _Entry:
    __slots__ = ("is_live", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.is_live = True


class _Order:
    """Requests of waiting pods, sorted by the amount of one resource; removed ones stay until they are the majority."""

    __slots__ = ("amounts", "dead", "entries")

    def __init__(self) -> None:
        self.amounts: list[int] = []
        self.entries: list[_Entry] = []  # beside their amounts
        self.dead = 0

    def add(self, amount: int, entry: _Entry) -> None:
        place = bisect_left(self.amounts, amount)
        self.amounts.insert(place, amount)
        self.entries.insert(place, entry)

    def compact(self) -> None:
        live = [entry.is_live for entry in self.entries]
        self.amounts = list(compress(self.amounts, live))
        self.entries = list(compress(self.entries, live))
        self.dead = 0


class _Ordered:
    """The requests of waiting pods that name one set of resources, sorted by the amount of each resource."""

    def __init__(self, names: list[str]) -> None:
        self._orders = {name: _Order() for name in names}  # resource -> the requests in order of its amount
        self._entries: dict[Request, _Entry] = {}  # those that are live

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request: Request) -> None:
        entry = self._entries[request] = _Entry(request)
        amounts = dict(request)
        for name, order in self._orders.items():
            order.add(amounts[name], entry)

    def remove(self, request: Request) -> None:
        self._entries.pop(request).is_live = False
        # Each is compacted after as many removals as are left, so that it is O(1) a removal; and not all at once, since
        # each may be long.
        limit = len(self._entries)
        for order in self._orders.values():
            order.dead += 1
            limit += 256
            if order.dead > limit:
                order.compact()

    def all(self) -> Iterable[Request]:
        return list(self._entries)

    def up_to(self, amounts: Mapping[str, float]) -> Iterable[Request]:
        """Yield at least the requests for no more than these amounts; requests may be added and removed meanwhile."""
        fewest, narrowest = math.inf, None
        for name, order in self._orders.items():
            number = bisect_right(order.amounts, amounts.get(name, 0))
            if number < fewest:
                fewest, narrowest = number, order.entries[:number]
        if narrowest is None:
            return self.all()
        return (entry.request for entry in narrowest if entry.is_live)


def _as_request(key: Hashable) -> Request:
    if not isinstance(key, tuple):
        raise TypeError(f"expected the key of a request, got {key!r}")
    return key


def _names_requested(pod: PodInfo) -> Hashable:
    return _known_request(pod)[2]


def _request_of(pod: PodInfo) -> Request:
    return _known_request(pod)[1]


def _known_request(pod: PodInfo) -> tuple[PodResources, Request, frozenset[str]]:
    """Return what states the pod's request, the request, and the names in it.

    Pods of one template share what states it. It is kept, so that its id means no other.
    """
    resources = pod.resources
    known = _requests.get(id(resources))
    if known is None:
        if len(_requests) >= MAX_REQUESTS:
            _requests.clear()
        request = _sorted(resources.total)
        known = _requests[id(resources)] = resources, request, frozenset(name for name, _ in request)
    return known


def _request(pod: Pod) -> Request:
    return _sorted(pod_resources(pod).total)


def _sorted(resources: Resources) -> Request:
    return tuple(sorted((name, amount) for name, amount in _amounts(resources).items() if amount))


def _with_backed(amounts: dict[str, int], devices: Devices) -> dict[str, float]:
    """Return a node's amounts, endless for the resources that device classes back, and of which the node has none."""
    backed = devices.resources
    return {**amounts, **{name: math.inf for name in backed if not amounts.get(name)}} if backed else {**amounts}


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        CPU: resources.cpu_milli,
        MEMORY: resources.memory,
        EPHEMERAL_STORAGE: resources.ephemeral_storage,
        **resources.scalars,
    }
