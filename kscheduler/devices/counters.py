"""The counters that devices of a pool share, such as the memory of a GPU that can be partitioned.

A device can be allocated if no counter of its pool is overdrawn then: its total, less what allocated devices consume,
less what the devices chosen in this search consume.
"""

from __future__ import annotations

from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.pools import Pool
from kscheduler.devices.slices import ParsedDevice, PoolID

Counter = tuple[str, str]  # counter set, counter
Amounts = dict[Counter, int]


class AvailableCounters:
    """What allocated devices leave of the pools' counters, computed once for all nodes of a cycle."""

    __slots__ = ("_by_name", "_of_pools", "_shared", "_state")

    def __init__(self, state: AllocatedState, *, by_pool_name: bool) -> None:
        self._state = state
        self._by_name = by_pool_name  # pools of different drivers are taken for one if they have the same name
        self._of_pools: dict[PoolID, Amounts] = {}
        self._shared: frozenset[DeviceID] | None = None

    @property
    def shared_devices(self) -> frozenset[DeviceID]:
        """Devices of which there are shares, with or without capacity."""
        if self._shared is None:
            self._shared = frozenset(device for device, _ in self._state.shares)
        return self._shared

    def key(self, pool: PoolID) -> PoolID:
        """Return what the counters of a pool are kept under."""
        return ("", pool[1]) if self._by_name else pool

    def of(self, pool: Pool) -> Amounts:
        key = self.key(pool.id)
        available = self._of_pools.get(key)
        if available is None:
            available = self._of_pools[key] = self._count(pool)
        return available

    def _count(self, pool: Pool) -> Amounts:
        available = {(name, each): amount for name, of in pool.counters.totals.items() for each, amount in of.items()}
        devices, capacity, shared = self._state.devices, self._state.capacity, self.shared_devices
        for device in pool.counters.consumers:
            # As `is_allocated`, without a call for each device.
            if device.id not in devices and device.id not in capacity and device.id not in shared:
                continue
            for counter_set, name, amount in device.consumption:
                available[counter_set, name] -= amount
        return available

    def is_allocated(self, device: DeviceID) -> bool:
        """Return whether a device is in use, whole or by shares."""
        state = self._state
        return device in state.devices or device in state.capacity or device in self.shared_devices


class ConsumedCounters:
    """What the devices chosen in one search consume."""

    __slots__ = ("_available", "_of_pools")

    def __init__(self, available: AvailableCounters) -> None:
        self._available = available
        self._of_pools: dict[PoolID, Amounts] = {}

    def reserve(self, device: ParsedDevice, pool: Pool) -> bool:
        """Count a device, unless a counter of its pool would be overdrawn then."""
        available = self._available.of(pool)
        consumed = self._of_pools.setdefault(self._available.key(pool.id), {})
        for counter_set, name, amount in device.consumption:
            consumed[counter_set, name] = consumed.get((counter_set, name), 0) + amount
        if all(consumed.get(counter, 0) <= amount for counter, amount in available.items()):
            return True
        self._take_back(device, consumed)
        return False

    def release(self, device: ParsedDevice, pool: Pool) -> None:
        self._take_back(device, self._of_pools[self._available.key(pool.id)])

    def _take_back(self, device: ParsedDevice, consumed: Amounts) -> None:
        for counter_set, name, amount in device.consumption:
            consumed[counter_set, name] -= amount
