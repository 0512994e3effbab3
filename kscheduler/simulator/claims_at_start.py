"""Says which ResourceClaims of a list exist when a simulation begins: pods that are not simulated hold none."""

from __future__ import annotations

from collections.abc import Iterable

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
            found.append(_released(item, uids))
    return found


def _released(claim: ResourceClaim, uids: set[str]) -> ResourceClaim:
    reserved = claim.status.reserved_for or []
    kept = [each for each in reserved if each.uid in uids]
    if len(kept) == len(reserved):
        return claim
    if kept:
        return replace(claim, status=replace(claim.status, reserved_for=kept))
    return replace(claim, status=replace(claim.status, reserved_for=None, allocation=None, devices=None))
