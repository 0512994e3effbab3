"""The devices that a node sees as columns of integers, for the kernel that searches them.

Nodes with the same pools share a table. It has what decides about requests for numbers of devices: a node with devices
that are shared, or that depend on the node, has none, and is searched in the general form.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.counters import AvailableCounters
from kscheduler.devices.features import Features
from kscheduler.devices.matching import DeviceQuery
from kscheduler.devices.pools import Pool
from kscheduler.devices.slices import NO, UNKNOWN, UNKNOWN_VALUE, AttributeValue, ParsedDevice
from kscheduler.devices.taints import are_tolerated

MAX_DEVICES = 512  # of a node with a table: one with more is not searched often enough
MAX_PLANS = 8  # of which a table keeps what they have found out
_NO_VALUE, _OF_UNKNOWN_TYPE = -1, -2  # numbers of values, as the kernel has them


class DeviceTable:
    """`kept`: what plans have found out about it, which holds as long as the table."""

    __slots__ = ("_counting", "_features", "devices", "ids", "kept", "pool_of", "pool_starts", "uses")

    def __init__(self, pools: Sequence[Pool], devices: Sequence[ParsedDevice], features: Features) -> None:
        self._features = features
        self.kept: dict[Hashable, tuple[bytes, array[int]]] = {}  # plan -> matching devices, values of attributes
        self.devices = devices
        self.ids: tuple[DeviceID, ...] = tuple(device.id for device in devices)
        # Of each device: its pool. Of each pool: where its counters begin, and the end of all.
        self.pool_of, self.pool_starts = array("i"), array("i", [0])
        starts, counters, amounts = array("i", [0]), array("i"), array("q")
        self._counting: list[Pool] = []  # the pools with counters, in order
        for place, pool in enumerate(each for each in pools if each.is_usable and each.devices):
            first = self.pool_starts[-1]
            names = [(name, each) for name, of in pool.counters.totals.items() for each in of] if _counts(pool) else []
            numbers = {name: first + index for index, name in enumerate(names)}
            self.pool_starts.append(first + len(names))
            if names:
                self._counting.append(pool)
            for device in pool.devices:
                self.pool_of.append(place)
                for counter_set, name, amount in device.consumption if names else ():
                    counters.append(numbers[counter_set, name])
                    amounts.append(amount)
                starts.append(len(counters))
        self.uses = starts, counters, amounts

    @staticmethod
    def of(pools: Sequence[Pool], devices: Sequence[ParsedDevice], features: Features) -> DeviceTable | None:
        """Return the table of a node's pools and all devices in them; None if it has none."""
        if len(devices) > MAX_DEVICES or not all(_fits_integers(device, features) for device in devices):
            return None
        keys = [pool.id[1] if features.rules.counters_by_pool_name else pool.id for pool in pools if _counts(pool)]
        if len(keys) != len(set(keys)):
            return None
        try:
            return DeviceTable(pools, devices, features)
        except OverflowError:  # an amount beyond int64
            return None

    def keep(self, plan: Hashable, found: tuple[bytes, array[int]]) -> None:
        if len(self.kept) >= MAX_PLANS:
            del self.kept[next(iter(self.kept))]
        self.kept[plan] = found

    def in_use(self, state: AllocatedState) -> bytes | None:
        """Return a byte for each device, 1 if it is in use; None if some are used in shares by now."""
        if state.capacity and not state.capacity.keys().isdisjoint(self.ids):
            return None
        return bytes(map(state.devices.__contains__, self.ids))

    def available(self, available: AvailableCounters) -> array[int] | None:
        """Return what is left of each counter; None if an amount is beyond int64."""
        left = array("q")
        try:
            for pool in self._counting:
                left.extend(available.of(pool).values())
        except OverflowError:
            return None
        return left

    def matching(self, query: DeviceQuery) -> bytes | None:
        """Return a byte for each device, 1 if a query allows it; None if a selector was not evaluated for some."""
        found = bytearray(len(self.devices))
        features = self._features
        for place, device in enumerate(self.devices):
            for expression in query.expressions:
                answer = device.slice.answers(expression)[device.index]
                if answer == UNKNOWN:
                    return None
                if answer == NO:
                    break
            else:
                is_usable = features.binding_conditions or not device.has_binding_conditions
                is_tolerated = not (features.taints and device.taints) or are_tolerated(
                    device.taints, query.tolerations
                )
                found[place] = is_usable and is_tolerated
        return bytes(found)

    def values(self, attribute: str) -> list[int]:
        """Return the number of each device's value of an attribute; equal values have equal numbers."""
        numbers: dict[AttributeValue, int] = {UNKNOWN_VALUE: _OF_UNKNOWN_TYPE}  # which no other value equals
        found = []
        for device in self.devices:
            value = device.attribute(attribute)
            found.append(_NO_VALUE if value is None else numbers.setdefault(value, len(numbers)))
        return found


def _counts(pool: Pool) -> bool:
    return pool.is_usable and pool.uses_counters


def _fits_integers(device: ParsedDevice, features: Features) -> bool:
    if device.target is not None or device.allows_multiple or device.slice.skips_operations:
        return False
    if any(each.has_policy or each.limit < 0 for each in device.capacity.values()):
        return False
    if not device.uses_counters:
        return True
    return features.partitionable_devices and not features.compatibility_groups and bool(device.consumption)
