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
    derived_attributes: bool
    list_attributes: bool
    optional_node_operations: bool
    # Devices that need DRAOptionalNodeOperations are left out where the gate or the node lacks it. With the gate off
    # and no other of the newest gates on, kube-scheduler does not look at that.
    heeds_node_operations: bool
    partitionable_devices: bool
    taints: bool

    @staticmethod
    def of(release: Release) -> Features:
        fractional = release.has("DRAFractionalCapacityRange")
        optional_node_operations = release.has("DRAOptionalNodeOperations")
        list_attributes, groups = release.has("DRAListTypeAttributes"), release.has("DRADeviceCompatibilityGroups")
        derived = release.has("DRADerivedAttributes")
        return Features(
            rules=release.devices,
            capacity_rules=CapacityRules.of(release.devices, fractional=fractional),
            admin_access=release.has("DRAAdminAccess"),
            alternatives=release.has("DRAPrioritizedList"),
            binding_conditions=(
                release.has("DRADeviceBindingConditions") and release.has("DRAResourceClaimDeviceStatus")
            ),
            compatibility_groups=groups,
            consumable_capacity=release.has("DRAConsumableCapacity"),
            derived_attributes=derived,
            list_attributes=list_attributes,
            optional_node_operations=optional_node_operations,
            heeds_node_operations=(
                release.devices.has_optional_node_operations
                and (optional_node_operations or list_attributes or groups or derived)
            ),
            partitionable_devices=release.has("DRAPartitionableDevices"),
            taints=release.has("DRADeviceTaints"),
        )
