"""Tells our side of a case's devices and claims, the long way round: what was different, assumed or in flight for a
while, or is gone, leaves no trace. See `detours`.

Classes keep the extended resources that they back: which of several classes backs one is a matter of their order. No
device is in use twice on the way: as in kube-scheduler, one that two claims name is free once one of them gives it up.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kscheduler.api.devices import (
    AllocationResult,
    ClaimMeta,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from kscheduler.config.releases import Release
from kscheduler.devices.allocated import DeviceID
from kscheduler.snapshot.devices import Devices
from tests.parity.case import Object
from tests.parity.devices.ours import read_objects

DETOURS = 0.3  # of objects

Cluster = Mapping[str, Sequence[Object]]


def mislead_about_devices(devices: Devices, cluster: Cluster, release: Release, rng: random.Random) -> None:
    """Some objects as they will not stay, each like another one of its kind, and some that will not stay at all."""
    for each in read_objects(_some_like_others(rng, cluster.get("resourceSlices", ()), {"metadata"}), ResourceSlice):
        devices.set_slice(each)
    if not _has_rivals(cluster):
        for made in read_objects(_some_like_others(rng, cluster.get("deviceClasses", ()), {"metadata"}), DeviceClass):
            devices.set_class(made)
    free = _free_devices(cluster, rng)
    for claim in read_objects(cluster.get("resourceClaims"), ResourceClaim):
        if rng.random() < DETOURS:  # it is allocated by now, and was not; or the other way round
            is_free = claim.status.allocation is None and free
            devices.set_claim(_older(claim, _allocation_of(free.pop()) if is_free else None))
    if free and rng.random() < DETOURS:
        metadata = ClaimMeta(name="former", namespace="default", uid="former", resource_version="1")
        devices.set_claim(_older(ResourceClaim(metadata), _allocation_of(free.pop())))
    if cluster.get("resourceSlices") and rng.random() < DETOURS:
        former = {**rng.choice(cluster["resourceSlices"]), "metadata": {"name": "former"}}
        devices.set_slice(read_objects([former], ResourceSlice)[0])
    if release.has("DRADeviceTaintRules"):
        for rule in read_objects(cluster.get("deviceTaintRules"), DeviceTaintRule):
            if rng.random() < DETOURS:
                devices.set_taint_rule(replace(rule, spec=replace(rule.spec, device_selector=DeviceTaintSelector())))


def inform_about_devices(devices: Devices, cluster: Cluster, release: Release, rng: random.Random) -> None:
    """All objects as they are, and no others, in their order. Some are in use for a while on the way."""
    devices.remove_slice("former")
    devices.remove_claim("default", "former")
    if release.has("DRADeviceTaintRules"):
        for rule in read_objects(cluster.get("deviceTaintRules"), DeviceTaintRule):
            devices.set_taint_rule(rule)
    for device_class in read_objects(cluster.get("deviceClasses"), DeviceClass):
        devices.set_class(device_class)
    for each in read_objects(cluster.get("resourceSlices"), ResourceSlice):
        devices.set_slice(each)
    claims, free = read_objects(cluster.get("resourceClaims"), ResourceClaim), _free_devices(cluster, rng)
    for claim in claims:
        devices.set_claim(claim)
    for claim in claims:
        if free and rng.random() < DETOURS:
            _use_for_a_while(devices, claim, rng.choice(free), rng)


def _has_rivals(cluster: Cluster) -> bool:
    """Do several classes name one extended resource?"""
    names = [each["spec"].get("extendedResourceName") for each in cluster.get("deviceClasses", ())]
    named = [name for name in names if name is not None]
    return len(set(named)) < len(named)


def _some_like_others(rng: random.Random, documents: Sequence[Object], own: set[str]) -> list[Object]:
    """Some of the objects with all but their `own` parts from others, in an older version."""
    made = []
    for each in documents:
        if rng.random() >= DETOURS:
            continue
        other = rng.choice(documents)
        like = {key: value for key, value in other.items() if key not in own} | {key: each[key] for key in own}
        like["metadata"] = {**each["metadata"], "resourceVersion": "1"}
        if "extendedResourceName" in each["spec"] or "extendedResourceName" in like["spec"]:
            like["spec"] = each["spec"]
        made.append(like)
    return made


def _free_devices(cluster: Cluster, rng: random.Random) -> list[DeviceID]:
    """The published devices that no claim uses, in random order."""
    published = {
        (each["spec"]["driver"], each["spec"]["pool"]["name"], device["name"])
        for each in cluster.get("resourceSlices", ())
        for device in each["spec"].get("devices", ())
    }
    for claim in read_objects(cluster.get("resourceClaims"), ResourceClaim):
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results or ():
                published.discard((result.driver, result.pool, result.device))
    free = sorted(published)
    rng.shuffle(free)
    return free


def _allocation_of(device: DeviceID) -> AllocationResult:
    driver, pool, name = device
    result = DeviceRequestAllocationResult(request="r", driver=driver, pool=pool, device=name)
    return AllocationResult(DeviceAllocationResult([result]))


def _older(claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
    metadata = replace(claim.metadata, resource_version="1")
    return replace(claim, metadata=metadata, status=ResourceClaimStatus(allocation=allocation))


def _use_for_a_while(devices: Devices, claim: ResourceClaim, device: DeviceID, rng: random.Random) -> None:
    """Allocate the claim a device, assumed or in flight, and take that back."""
    newer = replace(claim.metadata, resource_version="200")
    allocated = replace(claim, metadata=newer, status=ResourceClaimStatus(allocation=_allocation_of(device)))
    if rng.random() < 0.5:
        devices.assume_claim(allocated)
        devices.restore_claim(claim.metadata.namespace, claim.metadata.name)
    else:
        devices.begin_allocation(claim.metadata.uid, allocated)
        devices.end_allocation(claim.metadata.uid, for_all=True)
