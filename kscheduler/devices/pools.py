"""Resource pools as one node sees them: complete with devices, or incomplete, or invalid.

A pool is the slices of one driver with one pool name. A driver replaces it by publishing slices of a higher
generation, and says in each slice how many there are. What a node can use is allocated from; the pool's other slices
matter only for completeness and for the counters that their devices share. The devices of one slice may name their
nodes one by one; those that are not accessible from the node stay in the pool, because an error of a selector about
one of them is an error on this node, too.
"""

from __future__ import annotations

from collections import Counter as CounterOf
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kscheduler.api.exact_quantity import QuantityError
from kscheduler.devices.amounts import parse_amount
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.slices import NO, UNKNOWN, ParsedDevice, ParsedSlice, PoolID

Counters = Mapping[str, Mapping[str, int]]  # counter set -> counter -> amount


@dataclass(frozen=True, slots=True)
class PoolCounters:
    """The counters of a pool, and its devices that consume some, on this node or not."""

    totals: Counters
    consumers: tuple[ParsedDevice, ...]
    fault: str = ""  # why they cannot be relied upon, "" if they can


NO_COUNTERS = PoolCounters({}, ())
_NONE_BY_DEVICE: Mapping[ParsedSlice, bytes] = {}  # there is no slice whose devices name nodes one by one


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool for one node. One that is incomplete or invalid has no devices."""

    id: PoolID
    is_incomplete: bool = False
    fault: str = ""  # why the pool is invalid, "" if it is not
    devices: tuple[ParsedDevice, ...] = ()  # those of slices that the node can use, by the slice's name
    accessible: tuple[ParsedDevice, ...] = ()  # those of the devices that the node can use
    has_malformed_selectors: bool = False  # of nodes: can only the search tell about some of these devices?
    counters: PoolCounters = NO_COUNTERS
    has_binding_conditions: bool = False

    @property
    def is_invalid(self) -> bool:
        return bool(self.fault)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.fault

    @property
    def uses_counters(self) -> bool:
        """Return whether a device does that the node can use."""
        return any(device.uses_counters for device in self.accessible)

    @property
    def inaccessible(self) -> Sequence[ParsedDevice]:
        if len(self.accessible) == len(self.devices):
            return ()
        accessible = {device.name for device in self.accessible}  # names are unique in a pool that is valid
        return [device for device in self.devices if device.name not in accessible]

    def __str__(self) -> str:
        return "/".join(self.id)


def sort_pools(pools: Iterable[Pool]) -> list[Pool]:
    """Return pools in the order of allocation: by driver and name, those with binding conditions last."""
    return sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id))


class Generation:
    """The slices of one generation of a pool, and what is the same for all nodes that see it."""

    __slots__ = ("_counters", "members")

    def __init__(self, members: Sequence[ParsedSlice]) -> None:
        self.members = members
        self._counters: PoolCounters | None = None

    @property
    def counters(self) -> PoolCounters:
        if self._counters is None:
            self._counters = _count(self.members)
        return self._counters


class PoolSlices:
    """All slices of one pool, of any generation, with the pools that were built of them for nodes."""

    __slots__ = ("_generations", "_kept", "has_partitions", "hides_groups", "id", "members", "with_counters")

    _MAX_KEPT = 16_384  # pools for nodes; nodes that use the same slices share one

    def __init__(self, pool: PoolID, *, has_partitions: bool, hides_groups: bool) -> None:
        self.id = pool
        self.has_partitions = has_partitions  # is the gate DRAPartitionableDevices on?
        self.hides_groups = hides_groups  # are slices that use compatibility groups left out?
        self.members: list[ParsedSlice] = []
        self.with_counters: list[ParsedSlice] = []  # those of the members that have counter sets
        self._kept: dict[tuple[object, ...], Pool | None] = {}  # slices, with their accessible devices -> pool
        self._generations: dict[int, Generation] = {}

    def add(self, parsed: ParsedSlice) -> None:
        self.members.append(parsed)
        if parsed.has_counters:
            self.with_counters.append(parsed)
        self._forget()

    def remove(self, parsed: ParsedSlice) -> None:
        self.members.remove(parsed)
        if parsed.has_counters:
            self.with_counters.remove(parsed)
        self._forget()

    def _forget(self) -> None:
        self._kept.clear()
        self._generations.clear()

    @property
    def different_counters(self) -> int:
        """Return how many different counters nodes may see of this pool, 0 if it has none."""
        if not self.with_counters:
            return 0
        if all(parsed.node_name and parsed.node_name == self.members[0].node_name for parsed in self.members):
            return 1
        numbers = {parsed.generation: parsed.slice_count for parsed in self.with_counters}
        sizes = CounterOf(parsed.generation for parsed in self.members)
        # Of more slices than the pool says that it has, different nodes may see different ones.
        return sum(1 if sizes[number] <= count else 2 for number, count in numbers.items())

    def seen_by_node(
        self, relevant: tuple[ParsedSlice, ...], accessible: Mapping[ParsedSlice, bytes] = _NONE_BY_DEVICE
    ) -> Pool | None:
        """Return the pool for a node that can use these slices, all of one generation; None if that is obsolete.

        `accessible`: for slices whose devices name nodes one by one, what their `accessible_from` says.
        """
        key = (relevant, *accessible.values())
        if key in self._kept:
            return self._kept[key]
        if len(self._kept) >= self._MAX_KEPT:
            self._kept.clear()
        pool = self._kept[key] = self._build(relevant, accessible)
        return pool

    def _build(self, relevant: tuple[ParsedSlice, ...], accessible: Mapping[ParsedSlice, bytes]) -> Pool | None:
        number, expected = relevant[0].generation, relevant[0].slice_count
        if not self._generations:
            self._generations = self._sort()
        generation = self._generations[number]
        if len(relevant) != expected:
            if number < max(self._generations):
                return None
            if len(generation.members) != expected:
                return Pool(self.id, is_incomplete=True)
        elif len(relevant) != len(generation.members):
            generation = Generation(relevant)  # the pool has more slices than it says, which are not looked at
        return self._join(sorted(relevant, key=lambda parsed: parsed.name), generation, accessible)

    def _sort(self) -> dict[int, Generation]:
        members: dict[int, list[ParsedSlice]] = {}
        for parsed in self.members:
            of_number = members.setdefault(parsed.generation, [])
            if not (self.hides_groups and parsed.uses_compatibility_groups):
                of_number.append(parsed)
        return {number: Generation(each) for number, each in members.items()}

    def _join(
        self, relevant: Sequence[ParsedSlice], generation: Generation, accessible: Mapping[ParsedSlice, bytes]
    ) -> Pool:
        with_devices = [parsed for parsed in relevant if not (self.has_partitions and parsed.has_counters)]
        devices = tuple(device for parsed in with_devices for device in parsed.devices)
        fault = _duplicate_name(devices)
        if fault:
            return Pool(self.id, fault=fault)
        counters = generation.counters if self.has_partitions else NO_COUNTERS
        if counters.fault:
            return Pool(self.id, fault=counters.fault)
        of_node = devices
        if accessible:
            of_node = tuple(
                device
                for parsed in with_devices
                for device in parsed.devices
                if parsed not in accessible or accessible[parsed][device.index] != NO
            )
        return Pool(
            self.id,
            devices=devices,
            accessible=of_node,
            has_malformed_selectors=any(UNKNOWN in each for each in accessible.values()),
            counters=counters,
            has_binding_conditions=any(device.device.binding_conditions is not None for device in devices),
        )


def _duplicate_name(devices: Sequence[ParsedDevice]) -> str:
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return f"duplicate device name {device.name}"
        names.add(device.name)
    return ""


def _count(members: Sequence[ParsedSlice]) -> PoolCounters:
    totals: dict[str, dict[str, int]] = {}
    for parsed in members:
        for each in parsed.published.spec.shared_counters or ():
            if each.name in totals:
                return PoolCounters({}, (), f"duplicate counter set name {each.name}")
            try:
                totals[each.name] = {
                    name: parse_amount(counter.value) for name, counter in (each.counters or {}).items()
                }
            except QuantityError as error:
                raise AllocationError(f"ResourceSlice {parsed.name}, counter set {each.name}: {error}") from None
    consumers = tuple(
        device for parsed in members if not parsed.has_counters for device in parsed.devices if device.uses_counters
    )
    return PoolCounters(totals, consumers, _unknown_counter(consumers, totals))


def _unknown_counter(consumers: Iterable[ParsedDevice], totals: Counters) -> str:
    for device in consumers:
        for consumed in device.device.consumes_counters or ():
            if consumed.counter_set not in totals:
                return f"counter set {consumed.counter_set} not found"
            for name in consumed.counters or {}:
                if name not in totals[consumed.counter_set]:
                    return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""
