"""Which changes of pods and nodes may help a pod that lacked room; kube-scheduler's rules.

Pods that go, or ask for less than before of what the waiting pod asks for; new nodes that could take it were they
empty; and nodes that could and got more of what it asks for, or of places for pods.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping

from kscheduler.api.objects import Node, Pod
from kscheduler.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Resources, node_allocatable, pod_resources
from kscheduler.framework.events import Grouping
from kscheduler.snapshot.pod_info import PodInfo

Request = tuple[tuple[str, int], ...]  # (resource, amount), all above zero, by name


class Hints:
    """`is_ignored`: resources that this plugin leaves to somebody else."""

    def __init__(self, is_ignored: Callable[[str], bool]) -> None:
        self._is_ignored = is_ignored
        self.for_pods = Grouping(_names_requested)
        self.for_nodes = Grouping(_request_of, lambda: RequestIndex(is_ignored))

    def after_pod(self, waiting: Pod, old: object, new: object) -> bool:
        """`new` is None for a pod that has gone from its node; else it may have been scaled down."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return True
        if new.metadata.uid == waiting.metadata.uid:
            return True
        if not new.spec.node_name:
            return False
        before, after = _amounts(pod_resources(old).total), _amounts(pod_resources(new).total)
        return any(before.get(name, 0) > after.get(name, 0) for name, _ in _request(waiting))

    def after_node(self, waiting: Pod, old: object, new: object) -> bool:
        """`old` is None for a new node; else what it offers has changed."""
        if not isinstance(new, Node):
            return True
        request, offer = _request(waiting), node_allocatable(new)
        amounts = _amounts(offer.resources)
        if offer.pods < 1 or any(
            amount > amounts.get(name, 0) and not self._is_ignored(name) for name, amount in request
        ):
            return False
        if not isinstance(old, Node):
            return True
        offered = node_allocatable(old)
        before = _amounts(offered.resources)
        return offer.pods > offered.pods or any(amounts.get(name, 0) > before.get(name, 0) for name, _ in request)


class RequestIndex:
    """The requests that a node could take, without asking each: in order of amount, for each resource.

    Requests are kept apart by the resources they ask for, so that a node that got more of one resource brings up only
    those that ask for it. Of a request's resources the one that leaves fewest candidates is looked at.
    """

    def __init__(self, is_ignored: Callable[[str], bool]) -> None:
        self._is_ignored = is_ignored
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
        amounts = _amounts(offer.resources)
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


class _Ordered:
    """Requests for the same resources. Those removed stay in the order until they are more than those left."""

    def __init__(self, names: list[str]) -> None:
        # resource -> its amounts, ascending, and beside them the entries
        self._orders: dict[str, tuple[list[int], list[_Entry]]] = {name: ([], []) for name in names}
        self._entries: dict[Request, _Entry] = {}  # also those removed
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def add(self, request: Request) -> None:
        self._live += 1
        entry = self._entries.get(request)
        if entry is not None:
            entry.is_live = True
            return
        entry = self._entries[request] = _Entry(request)
        amounts = dict(request)
        for name, (ascending, entries) in self._orders.items():
            place = bisect_left(ascending, amounts[name])
            ascending.insert(place, amounts[name])
            entries.insert(place, entry)

    def remove(self, request: Request) -> None:
        self._entries[request].is_live = False
        self._live -= 1
        if len(self._entries) > 2 * self._live + 64:
            self._compact()

    def _compact(self) -> None:
        """As many removals have happened as are left, so this is O(1) for each."""
        self._entries = {request: entry for request, entry in self._entries.items() if entry.is_live}
        for name, (ascending, entries) in self._orders.items():
            amounts = [amount for amount, entry in zip(ascending, entries, strict=True) if entry.is_live]
            self._orders[name] = amounts, [entry for entry in entries if entry.is_live]

    def all(self) -> Iterable[Request]:
        return [entry.request for entry in self._entries.values() if entry.is_live]

    def up_to(self, amounts: Mapping[str, int]) -> Iterable[Request]:
        """At least those that ask for no more than this, read slowly."""
        fewest, narrowest = len(self._entries), None
        for name, (ascending, entries) in self._orders.items():
            number = bisect_right(ascending, amounts.get(name, 0))
            if number < fewest:
                fewest, narrowest = number, entries
        candidates = list(self._entries.values()) if narrowest is None else narrowest[:fewest]
        return (entry.request for entry in candidates if entry.is_live)


def _as_request(key: Hashable) -> Request:
    if not isinstance(key, tuple):
        raise TypeError(f"expected the key of a request, got {key!r}")
    return key


def _names_requested(pod: PodInfo) -> Hashable:
    return frozenset(name for name, _ in _request_of(pod))


def _request_of(pod: PodInfo) -> Request:
    return _sorted(pod.resources.total)


def _request(pod: Pod) -> Request:
    return _sorted(pod_resources(pod).total)


def _sorted(resources: Resources) -> Request:
    return tuple(sorted((name, amount) for name, amount in _amounts(resources).items() if amount))


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        CPU: resources.cpu_milli,
        MEMORY: resources.memory,
        EPHEMERAL_STORAGE: resources.ephemeral_storage,
        **resources.scalars,
    }
