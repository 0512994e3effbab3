"""Taints of devices: those that keep a device from being allocated, and those that DeviceTaintRules add."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from kscheduler.api.devices import Device, DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceSlice
from kscheduler.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from kscheduler.config.releases import Release

_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)  # no other effect prevents an allocation


def preventing_taints(device: Device) -> tuple[DeviceTaint, ...]:
    """Return the taints without whose toleration the device cannot be allocated."""
    return tuple(taint for taint in device.taints or () if taint.effect in _EFFECTS)


def are_tolerated(taints: Collection[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def with_taint_rules(published: ResourceSlice, rules: Sequence[DeviceTaintRule], release: Release) -> ResourceSlice:
    """Return a slice whose devices have the taints of the rules that select them, behind their own taints.

    It is the same object if no rule applies, or if the gate DRADeviceTaintRules is off.
    """
    if not rules or not published.spec.devices or not release.has("DRADeviceTaintRules"):
        return published
    applicable = [rule for rule in rules if _concerns(rule, published, release)]
    if not applicable:
        return published
    devices = [_tainted(device, applicable) for device in published.spec.devices]
    if all(new is old for new, old in zip(devices, published.spec.devices, strict=True)):
        return published
    return msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, devices=devices))


def _concerns(rule: DeviceTaintRule, published: ResourceSlice, release: Release) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return release.empty_taint_selector_matches
    if selector.driver is not None and selector.driver != published.spec.driver:
        return False
    return selector.pool is None or selector.pool == published.spec.pool.name


def _tainted(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    added = [rule.spec.taint for rule in rules if _selects(rule, device)]
    return msgspec.structs.replace(device, taints=[*(device.taints or ()), *added]) if added else device


def _selects(rule: DeviceTaintRule, device: Device) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device is None or selector.device == device.name
