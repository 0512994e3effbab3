"""The devices that a node sees as columns of integers, for the kernel that searches them.

Nodes share a table if they see the same pools and can use the same devices of these. It has what decides about
requests: a node with devices for which that is more than comparing integers has none, and is searched in general form.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from kscheduler.api.exact_quantity import Quantity
from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.amounts import amount_of
from kscheduler.devices.capacity import consumed_amounts
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.features import Features
from kscheduler.devices.matching import DeviceQuery
from kscheduler.devices.pools import Pool
from kscheduler.devices.requests import Variant
from kscheduler.devices.selection import SelectorError, Selectors
from kscheduler.devices.slices import NO, UNKNOWN, UNKNOWN_VALUE, YES, AttributeValue, ParsedDevice
from kscheduler.devices.taints import are_tolerated

MAX_DEVICES = 512  # of a node with a table: one with more is not searched often enough
MAX_PLANS = 8  # of which a table keeps what they have found out
MAX_EVALUATIONS = 64  # of selectors for one query at a time; until all are known, the general search decides
OBTAINABLE, NOT_TOLERATED = 1, 2  # of devices that match, as the kernel has them
_NO_VALUE, _OF_UNKNOWN_TYPE = -1, -2  # numbers of values
_MOST_IN_SETS = 63  # different values of an attribute that is a list, each of which is a bit
_EXCLUSIVE, _SHARED, _SHARED_IN_USE = 0, 1, 2  # of devices

_NOTHING: Mapping[str, Quantity] = {}


@dataclass(slots=True, eq=False)
class Matches:
    """What a plan has found out about the devices of a table."""

    counts: array[int] = field(default_factory=lambda: array("i"))  # by variant: how many devices it wants
    matching: bytes = b""  # variant x device
    values: array[int] = field(default_factory=lambda: array("q"))  # constraint x device
    # What variants consume of the capacities of shared devices: variant x capacity, in units of billionths. And by
    # (variant, device), as claims are to have it.
    unit: int = 1
    needs: array[int] = field(default_factory=lambda: array("q"))
    amounts: dict[tuple[int, int], Mapping[str, Quantity]] = field(default_factory=dict)


class DeviceTable:
    """`kept`: what plans have found out about it, which holds as long as the table."""

    __slots__ = (
        "_counting",
        "_exclusive",
        "_features",
        "_inaccessible",
        "_sharing",
        "capacities",
        "devices",
        "has_all_pools",
        "ids",
        "kept",
        "pool_of",
        "pool_starts",
        "room_starts",
        "shared",
        "uses",
    )

    def __init__(self, pools: Sequence[Pool], devices: Sequence[ParsedDevice], features: Features) -> None:
        self._features = features
        self._inaccessible = [device for pool in pools if pool.is_usable for device in pool.inaccessible]
        self.kept: dict[Hashable, Matches | None] = {}  # by plan; None: the kernel cannot be asked about it
        self.has_all_pools = all(pool.is_usable for pool in pools)
        self.devices = devices
        self.ids: tuple[DeviceID, ...] = tuple(device.id for device in devices)
        # Of each device: its pool. Of each pool: where its counters begin, and the end of all.
        self.pool_of, self.pool_starts = array("i"), array("i", [0])
        starts, counters, amounts = array("i", [0]), array("i"), array("q")
        self._counting: list[Pool] = []  # the pools with counters, in order
        for place, pool in enumerate(each for each in pools if each.is_usable and each.accessible):
            first = self.pool_starts[-1]
            names = [(name, each) for name, of in pool.counters.totals.items() for each in of] if _counts(pool) else []
            numbers = {name: first + index for index, name in enumerate(names)}
            self.pool_starts.append(first + len(names))
            if names:
                self._counting.append(pool)
            for device in pool.accessible:
                self.pool_of.append(place)
                for counter_set, name, amount in device.consumption if names else ():
                    counters.append(numbers[counter_set, name])
                    amounts.append(amount)
                starts.append(len(counters))
        self.uses = starts, counters, amounts
        # Of devices that are shared: themselves, and their capacities. Of each device: where its capacities begin.
        self.shared = frozenset(
            place for place, each in enumerate(devices) if features.consumable_capacity and each.allows_multiple
        )
        self._sharing = bytes(_SHARED if place in self.shared else _EXCLUSIVE for place in range(len(devices)))
        self._exclusive = tuple(name for place, name in enumerate(self.ids) if place not in self.shared)
        self.capacities: list[tuple[int, str]] = []  # (device, name)
        self.room_starts = array("i", [0])
        for place, device in enumerate(devices):
            if place in self.shared:
                self.capacities += [(place, name) for name in device.capacity]
            self.room_starts.append(len(self.capacities))

    @staticmethod
    def of(pools: Sequence[Pool], features: Features) -> DeviceTable | None:
        """Return the table of the devices that a node can use; None if it has none. `pools`: those that it sees."""
        devices = [device for pool in pools if pool.is_usable for device in pool.accessible]
        if len(devices) > MAX_DEVICES or not all(_fits_integers(device, features) for device in devices):
            return None
        if any(pool.has_malformed_selectors for pool in pools):
            return None
        keys = [pool.id[1] if features.rules.counters_by_pool_name else pool.id for pool in pools if _counts(pool)]
        if len(keys) != len(set(keys)):
            return None
        try:
            return DeviceTable(pools, devices, features)
        except OverflowError:  # an amount beyond int64
            return None

    def keep(self, plan: Hashable, found: Matches | None) -> None:
        if len(self.kept) >= MAX_PLANS:
            del self.kept[next(iter(self.kept))]
        self.kept[plan] = found

    @property
    def leaves_out_used_up(self) -> bool:
        """Return whether requests for all devices leave out those whose capacity is used up."""
        return self._features.rules.all_leaves_out_used_up

    def in_use(self, state: AllocatedState) -> bytes | None:
        """Return a byte for each device, 1 if it is in use; None if some that are not shared are used in shares."""
        if state.capacity and not state.capacity.keys().isdisjoint(self._exclusive):
            return None
        return bytes(map(state.devices.__contains__, self.ids))

    def has_shares(self, state: AllocatedState) -> bool:
        """Return whether some capacity of a shared device is in use."""
        return bool(self.shared and state.capacity) and not state.capacity.keys().isdisjoint(self.ids)

    def sharing(self, state: AllocatedState, available: AvailableCounters) -> bytes:
        """Return how each device is shared, and whether the counters of a shared one are charged already."""
        if not self.shared or not self._counting:
            return self._sharing
        held = available.shared_devices if self._features.rules.shares_without_capacity_hold_counters else ()
        sharing = bytearray(self._sharing)
        for place in self.shared:
            if self.ids[place] in state.capacity or self.ids[place] in held:
                sharing[place] = _SHARED_IN_USE
        return bytes(sharing)

    def room(self, state: AllocatedState, unit: int) -> array[int] | None:
        """Return how many whole units are left of each capacity of shared devices; None if that is beyond int64."""
        room = array("q")
        try:
            for place, name in self.capacities:
                used = state.capacity.get(self.ids[place], _NOTHING).get(name)
                left = self.devices[place].capacity[name].limit - (0 if used is None else amount_of(used))
                room.append(left // unit)
        except OverflowError:
            return None
        return room

    def available(self, available: AvailableCounters) -> array[int] | None:
        """Return what is left of each counter; None if an amount is beyond int64."""
        left = array("q")
        try:
            for pool in self._counting:
                left.extend(available.of(pool).values())
        except OverflowError:
            return None
        return left

    def matching(self, query: DeviceQuery, selectors: Selectors) -> bytearray | None:
        """Return for each device OBTAINABLE if a query allows it, NOT_TOLERATED if but for its taints, else 0.

        None if a selector was not evaluated for some: its evaluation is an error, or there are too many of them.
        """
        found = bytearray(len(self.devices))
        features, evaluated = self._features, 0
        # The search looks at selectors before nodes, so it must not be an error either about a device of other nodes.
        for place, device in enumerate([*self.devices, *self._inaccessible]):
            view = None
            for expression in query.expressions:
                answers = device.slice.answers(expression)
                answer = answers[device.index]
                if answer == UNKNOWN:
                    evaluated += 1
                    if evaluated > MAX_EVALUATIONS:
                        return None
                    view = view or device.view()
                    try:
                        answer = YES if selectors.get(expression).matches(view) else NO
                    except SelectorError:
                        return None
                    answers[device.index] = answer
                if answer == NO:
                    break
            else:
                if place >= len(found) or (device.has_binding_conditions and not features.binding_conditions):
                    continue
                is_tolerated = not (features.taints and device.taints) or are_tolerated(
                    device.taints, query.tolerations
                )
                found[place] = OBTAINABLE if is_tolerated else NOT_TOLERATED
        return found

    def amounts(self, variant: Variant, place: int) -> Mapping[str, Quantity] | None:
        """Return what a variant consumes of a device's capacities; None if it does not offer that.

        Raises CapacityError.
        """
        capacity = self.devices[place].capacity
        if not self._features.consumable_capacity:
            return _NOTHING
        if not capacity:
            return None if variant.capacity else _NOTHING
        found = consumed_amounts(variant.capacity, capacity, self._features.capacity_rules)
        if found is None or any(amount_of(amount) > capacity[name].limit for name, amount in found.items()):
            return None
        return found

    def values(self, attribute: str) -> list[int]:
        """Return the number of each device's value of an attribute; equal values have equal numbers."""
        numbers: dict[AttributeValue, int] = {UNKNOWN_VALUE: _OF_UNKNOWN_TYPE}  # which no other value equals
        found = []
        for device in self.devices:
            value = device.attribute(attribute)
            found.append(_NO_VALUE if value is None else numbers.setdefault(value, len(numbers)))
        return found

    def value_sets(self, attribute: str) -> list[int] | None:
        """Return each device's values of an attribute that may be a list, as bits; None if there are too many."""
        bits: dict[AttributeValue, int] = {}
        found = []
        for device in self.devices:
            values = device.attribute_values(attribute)
            if values is None:
                found.append(_NO_VALUE)
                continue
            found.append(sum(bits.setdefault(value, 1 << len(bits)) for value in values))
        return None if len(bits) > _MOST_IN_SETS else found


def _counts(pool: Pool) -> bool:
    return pool.is_usable and pool.uses_counters


def _fits_integers(device: ParsedDevice, features: Features) -> bool:
    if device.slice.skips_operations:
        return False
    if any(each.limit < 0 for each in device.capacity.values()):
        return False
    if not device.uses_counters:
        return True
    return features.partitionable_devices and not features.compatibility_groups and bool(device.consumption)
