"""Which devices are in use: those that allocated claims name, and those of allocations in flight, kept up to date.

A claim's allocation is *in flight* from the decision until it is written. Results with admin access use nothing. As in
kube-scheduler, allocated claims form a set: a device that two of them name is free once one of them is deallocated.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

from kscheduler.api.devices import AllocationResult
from kscheduler.api.exact_quantity import Quantity, QuantityError
from kscheduler.api.objects import QuantityMap
from kscheduler.devices.allocated import AllocatedState, DeviceID
from kscheduler.devices.change_log import ChangeLog

log = logging.getLogger(__name__)

_NOTHING = Quantity.parse("0")
_CACHED_AMOUNTS = 1024  # of capacity, as results have them; those of a template's claims are few


class DeviceUse:
    """The devices, shares of devices and capacities in use.

    `by_shares`: a device that is allocated with a share id is shared; otherwise all devices are dedicated.
    """

    def __init__(self, *, by_shares: bool) -> None:
        self._by_shares = by_shares
        self._allocated = AllocatedState(set(), set(), {})  # what claims with an allocation use
        self._in_flight: dict[object, int] = {}  # device, or (device, share id) -> allocations in flight
        self.total = AllocatedState(set(), set(), {})  # both together; for reading only
        self.changes: ChangeLog[DeviceID] = ChangeLog()  # devices of which more or less may be in use than before

    def allocate(self, allocation: AllocationResult) -> None:
        """Count a claim's allocation, which is written."""
        devices, shares, consumed = self._parts(allocation)
        self._allocated.devices.update(devices)
        self._allocated.shares.update(shares)
        self._take(devices)
        self.total.shares.update(shares)
        for device, amounts in consumed:
            _add(self._allocated.capacity, device, amounts)
            _add(self.total.capacity, device, amounts)

    def deallocate(self, allocation: AllocationResult) -> None:
        """Take back what `allocate` counted."""
        devices, shares, consumed = self._parts(allocation)
        self._allocated.devices.difference_update(devices)
        self._allocated.shares.difference_update(shares)
        self._free([each for each in devices if each not in self._in_flight])
        self.total.shares.difference_update(each for each in shares if each not in self._in_flight)
        for device, amounts in consumed:
            _subtract(self._allocated.capacity, device, amounts)
            _subtract(self.total.capacity, device, amounts)

    def begin(self, allocation: AllocationResult) -> None:
        """Count an allocation that is in flight from now on."""
        devices, shares, consumed = self._parts(allocation)
        for each in (*devices, *shares):
            self._in_flight[each] = self._in_flight.get(each, 0) + 1
        self._take(devices)
        self.total.shares.update(shares)
        for device, amounts in consumed:
            _add(self.total.capacity, device, amounts)

    def end(self, allocation: AllocationResult) -> None:
        """Take back what `begin` counted: the allocation is in flight no longer."""
        devices, shares, consumed = self._parts(allocation)
        for each in (*devices, *shares):
            self._in_flight[each] -= 1
            if self._in_flight[each] <= 0:
                del self._in_flight[each]
        allocated = self._allocated
        if not allocated.devices.issuperset(devices):  # else they are in use all the same
            self._free([each for each in devices if each not in self._in_flight and each not in allocated.devices])
        if shares:
            self.total.shares.difference_update(
                each for each in shares if each not in self._in_flight and each not in allocated.shares
            )
        for device, amounts in consumed:
            _subtract(self.total.capacity, device, amounts)

    def _take(self, devices: Sequence[DeviceID]) -> None:
        """Note that dedicated devices are in use; those that were before have not changed."""
        in_use = self.total.devices
        if in_use.issuperset(devices):
            return
        changed = [each for each in devices if each not in in_use]
        in_use.update(changed)
        self.changes.extend(changed)

    def _free(self, devices: Sequence[DeviceID]) -> None:
        """Note that dedicated devices are free; those that were before have not changed."""
        in_use = self.total.devices
        changed = [each for each in devices if each in in_use]
        if changed:
            in_use.difference_update(changed)
            self.changes.extend(changed)

    def _parts(
        self, allocation: AllocationResult
    ) -> tuple[list[DeviceID], list[tuple[DeviceID, str]], list[tuple[DeviceID, QuantityMap]]]:
        """Return the dedicated devices of an allocation, its shares, and the capacity that each share consumes.

        Logs that devices with shares change, too.
        """
        devices: list[DeviceID] = []
        shares: list[tuple[DeviceID, str]] = []
        consumed: list[tuple[DeviceID, QuantityMap]] = []
        for result in allocation.devices.results or ():
            if result.admin_access:
                continue
            device = (result.driver, result.pool, result.device)
            if result.share_id is None or not self._by_shares:
                devices.append(device)
                continue
            shares.append((device, result.share_id))
            if result.consumed_capacity is not None:
                consumed.append((device, result.consumed_capacity))
        if shares:
            self.changes.extend([device for device, _ in shares])
        return devices, shares, consumed


def _add(capacity: dict[DeviceID, dict[str, Quantity]], device: DeviceID, amounts: QuantityMap) -> None:
    used = capacity.setdefault(device, {})
    for name, amount in amounts.items():
        used[name] = used.get(name, _NOTHING).add(_quantity(amount))


def _subtract(capacity: dict[DeviceID, dict[str, Quantity]], device: DeviceID, amounts: QuantityMap) -> None:
    used = capacity.get(device)
    if used is None:
        return
    for name, amount in amounts.items():
        if name in used:
            used[name] = used[name].subtract(_quantity(amount))
    if all(each.is_zero for each in used.values()):
        del capacity[device]


@functools.lru_cache(maxsize=_CACHED_AMOUNTS, typed=True)
def _quantity(amount: str | int | float) -> Quantity:
    """Return the amount; what cannot be read, which no apiserver stores, counts as nothing."""
    try:
        return Quantity.served(amount)
    except QuantityError as error:
        log.error("consumed capacity cannot be read", extra={"err": str(error)})
        return _NOTHING
