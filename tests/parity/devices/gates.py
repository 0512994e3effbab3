"""The feature gates that concern devices, as kube-scheduler of each release has them by default."""

from __future__ import annotations

from collections.abc import Mapping

_ON = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
)
_OFF = ("DRAListTypeAttributes",)
# DRAFractionalCapacityRange is beta, but kept off by its minimum compatibility version.
_OFF_SINCE_1_37 = (
    "DRAFractionalCapacityRange",
    "DRAOptionalNodeOperations",
    "DRADerivedAttributes",
    "DRADeviceCompatibilityGroups",
)

DEFAULTS: Mapping[str, Mapping[str, bool]] = {
    "1.36": {**dict.fromkeys(_ON, True), **dict.fromkeys(_OFF, False), "DRADeviceTaintRules": False},
    "1.37": {
        **dict.fromkeys(_ON, True),
        **dict.fromkeys((*_OFF, *_OFF_SINCE_1_37), False),
        "DRADeviceTaintRules": True,
    },
}
