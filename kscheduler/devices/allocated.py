"""The devices that claims have been given, and how much of the shared ones is consumed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kscheduler.api.devices import DeviceRequestAllocationResult
from kscheduler.api.exact_quantity import Quantity
from kscheduler.config.releases import Release

DeviceID = tuple[str, str, str]  # driver, pool, device


def show_device(device: DeviceID) -> str:
    """Return the device's name in messages: `driver/pool/device`."""
    return "/".join(device)


@dataclass(slots=True)
class AllocatedState:
    """The devices in use: those of claims with an allocation, and those being allocated to other pods."""

    devices: set[DeviceID] = field(default_factory=set)  # for the use of one claim only
    shares: set[tuple[DeviceID, str]] = field(default_factory=set)  # of shared devices: (device, share id)
    # Of shared devices: device -> capacity -> the amount that the shares consume together.
    capacity: dict[DeviceID, dict[str, Quantity]] = field(default_factory=dict)

    @staticmethod
    def of(results: Iterable[DeviceRequestAllocationResult], release: Release) -> AllocatedState:
        """Return the state that the results of allocated claims sum up to."""
        state = AllocatedState()
        for result in results:
            state.add(result, release)
        return state

    def add(self, result: DeviceRequestAllocationResult, release: Release) -> None:
        """Count a result of an allocated claim. One with admin access takes nothing from others."""
        if result.admin_access:
            return
        device = result.driver, result.pool, result.device
        if result.share_id is None or not release.has("DRAConsumableCapacity"):
            self.devices.add(device)
            return
        self.shares.add((device, result.share_id))
        if not result.consumed_capacity:
            return
        consumed = self.capacity.setdefault(device, {})
        for name, raw in result.consumed_capacity.items():
            amount = Quantity.served(raw)
            consumed[name] = consumed[name].add(amount) if name in consumed else amount
