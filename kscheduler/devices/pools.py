"""Resource pools as one node sees them: complete with devices, or incomplete, or invalid.

A pool is the slices of one driver with one pool name. A driver replaces it by publishing slices of a higher
generation, and says in each slice how many there are. What a node can use is allocated from; the pool's other slices
matter only for completeness and for the counters that their devices share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.exact_quantity import QuantityError
from kscheduler.devices.amounts import parse_amount
from kscheduler.devices.errors import AllocationError
from kscheduler.devices.slices import DeviceRecord, PoolID, SliceRecord

Counters = Mapping[str, Mapping[str, int]]  # counter set -> counter -> amount


@dataclass(frozen=True, slots=True)
class PoolCounters:
    """The counters of a pool, and its devices that consume some, on this node or not."""

    totals: Counters
    consumers: tuple[DeviceRecord, ...]
    fault: str = ""  # why they cannot be relied upon, "" if they can


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool for one node. One that is incomplete or invalid has no devices."""

    id: PoolID
    is_incomplete: bool = False
    fault: str = ""  # why the pool is invalid, "" if it is not
    devices: tuple[DeviceRecord, ...] = ()  # those of slices that the node can use, by the slice's name
    counters: PoolCounters = field(default_factory=lambda: PoolCounters({}, ()))
    has_binding_conditions: bool = False

    @property
    def is_invalid(self) -> bool:
        return bool(self.fault)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.fault

    def __str__(self) -> str:
        return "/".join(self.id)


def sort_pools(pools: Iterable[Pool]) -> list[Pool]:
    """Return pools in the order of allocation: by driver and name, those with binding conditions last."""
    return sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id))


class PoolSlices:
    """All slices of one pool, of any generation, with the pools that were built of them for nodes."""

    __slots__ = ("_counters", "_kept", "has_partitions", "hides_groups", "id", "records")

    _MAX_KEPT = 4096  # pools for nodes; nodes that use the same slices share one

    def __init__(self, pool: PoolID, *, has_partitions: bool, hides_groups: bool) -> None:
        self.id = pool
        self.has_partitions = has_partitions  # is the gate DRAPartitionableDevices on?
        self.hides_groups = hides_groups  # are slices that use compatibility groups left out?
        self.records: list[SliceRecord] = []
        self._kept: dict[tuple[SliceRecord, ...], Pool | None] = {}
        self._counters: dict[tuple[SliceRecord, ...], PoolCounters] = {}

    def add(self, record: SliceRecord) -> None:
        self.records.append(record)
        self._forget()

    def remove(self, record: SliceRecord) -> None:
        self.records.remove(record)
        self._forget()

    def _is_hidden(self, record: SliceRecord) -> bool:
        return self.hides_groups and record.uses_compatibility_groups

    def _forget(self) -> None:
        self._kept.clear()
        self._counters.clear()

    def seen_by_node(self, relevant: tuple[SliceRecord, ...]) -> Pool | None:
        """Return the pool for a node that can use these slices, all of one generation; None if that is obsolete."""
        if relevant in self._kept:
            return self._kept[relevant]
        if len(self._kept) >= self._MAX_KEPT:
            self._kept.clear()
        pool = self._kept[relevant] = self._build(relevant)
        return pool

    def _build(self, relevant: tuple[SliceRecord, ...]) -> Pool | None:
        generation, expected = relevant[0].generation, relevant[0].slice_count
        others: tuple[SliceRecord, ...] = ()
        if len(relevant) != expected:
            if any(record.generation > generation for record in self.records):
                return None
            current = [
                record for record in self.records if record.generation == generation and not self._is_hidden(record)
            ]
            if len(current) != expected:
                return Pool(self.id, is_incomplete=True)
            if len(relevant) < len(current):
                names = {record.name for record in relevant}
                others = tuple(record for record in current if record.name not in names)
        return self._join(tuple(sorted(relevant, key=lambda record: record.name)), others)

    def _join(self, relevant: tuple[SliceRecord, ...], others: tuple[SliceRecord, ...]) -> Pool:
        with_devices = [record for record in relevant if not (self.has_partitions and record.has_counters)]
        devices = tuple(device for record in with_devices for device in record.devices)
        fault = _duplicate_name(devices)
        if fault:
            return Pool(self.id, fault=fault)
        counters = self._counters_of(relevant, others)
        if counters.fault:
            return Pool(self.id, fault=counters.fault)
        return Pool(
            self.id,
            devices=devices,
            counters=counters,
            has_binding_conditions=any(device.device.binding_conditions is not None for device in devices),
        )

    def _counters_of(self, relevant: tuple[SliceRecord, ...], others: tuple[SliceRecord, ...]) -> PoolCounters:
        """Return the counters of these slices, which are the same for all nodes of a pool with few exceptions."""
        if not self.has_partitions:
            return PoolCounters({}, ())
        records = tuple(sorted((*relevant, *others), key=lambda record: record.name))
        known = self._counters.get(records)
        if known is None:
            known = self._counters[records] = _count(records)
        return known


def _duplicate_name(devices: Sequence[DeviceRecord]) -> str:
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return f"duplicate device name {device.name}"
        names.add(device.name)
    return ""


def _count(records: Sequence[SliceRecord]) -> PoolCounters:
    totals: dict[str, dict[str, int]] = {}
    for record in records:
        for each in record.published.spec.shared_counters or ():
            if each.name in totals:
                return PoolCounters({}, (), f"duplicate counter set name {each.name}")
            try:
                totals[each.name] = {
                    name: parse_amount(counter.value) for name, counter in (each.counters or {}).items()
                }
            except QuantityError as error:
                raise AllocationError(f"ResourceSlice {record.name}, counter set {each.name}: {error}") from None
    consumers = tuple(
        device for record in records if not record.has_counters for device in record.devices if device.uses_counters
    )
    return PoolCounters(totals, consumers, _unknown_counter(consumers, totals))


def _unknown_counter(consumers: Iterable[DeviceRecord], totals: Counters) -> str:
    for device in consumers:
        for consumed in device.device.consumes_counters or ():
            if consumed.counter_set not in totals:
                return f"counter set {consumed.counter_set} not found"
            for name in consumed.counters or {}:
                if name not in totals[consumed.counter_set]:
                    return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""
