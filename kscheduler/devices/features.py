"""The feature gates and rules of a release that the allocator asks for, looked up once."""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.config.device_rules import DeviceRules
from kscheduler.config.releases import Release
from kscheduler.devices.capacity import CapacityRules


@dataclass(frozen=True, slots=True)
class Features:
    rules: DeviceRules
    capacity_rules: CapacityRules
    admin_access: bool
    alternatives: bool
    binding_conditions: bool
    compatibility_groups: bool
    consumable_capacity: bool
    list_attributes: bool
    partitionable_devices: bool
    taints: bool

    @staticmethod
    def of(release: Release) -> Features:
        fractional = release.has("DRAFractionalCapacityRange")
        return Features(
            rules=release.devices,
            capacity_rules=CapacityRules.of(release.devices, fractional=fractional),
            admin_access=release.has("DRAAdminAccess"),
            alternatives=release.has("DRAPrioritizedList"),
            binding_conditions=(
                release.has("DRADeviceBindingConditions") and release.has("DRAResourceClaimDeviceStatus")
            ),
            compatibility_groups=release.has("DRADeviceCompatibilityGroups"),
            consumable_capacity=release.has("DRAConsumableCapacity"),
            list_attributes=release.has("DRAListTypeAttributes"),
            partitionable_devices=release.has("DRAPartitionableDevices"),
            taints=release.has("DRADeviceTaints"),
        )
