"""Says which ResourceClaims of a list exist when a simulation begins: pods that are not simulated hold none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kscheduler.api.devices import DeviceObject, ResourceClaim
from kscheduler.api.objects import Pod


def claims_at_start(devices: Iterable[DeviceObject], pods: Iterable[Pod]) -> list[DeviceObject]:
    """Return the objects without claims made for pods that are not there, and without reservations for such pods.

    A claim whose last reservation goes is deallocated, as in a cluster. A list may have such claims because its pods
    are finished, or left out of it.
    """
    items = list(devices)
    if not any(isinstance(item, ResourceClaim) for item in items):
        return items
    uids = {pod.metadata.uid for pod in pods if pod.metadata.uid}
    found: list[DeviceObject] = []
    for item in items:
        if not isinstance(item, ResourceClaim):
            found.append(item)
        elif all(owner.uid in uids for owner in item.metadata.owner_references or () if owner.controller):
            found.append(with_reservations_for(item, uids.__contains__))
    return found


def with_reservations_for(claim: ResourceClaim, stays: Callable[[str], bool]) -> ResourceClaim:
    """Return the claim without reservations for pods that do not stay; deallocated, if that leaves it without any.

    `stays`: is called with a pod's uid.
    """
    reserved = claim.status.reserved_for or []
    kept = [each for each in reserved if stays(each.uid)]
    if len(kept) == len(reserved):
        return claim
    if kept:
        return replace(claim, status=replace(claim.status, reserved_for=kept))
    return replace(claim, status=replace(claim.status, reserved_for=None, allocation=None, devices=None))
