"""The claims of a pod, sorted by what is left to do for them; or the reason why a claim keeps the pod waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.api.storage import (
    BIND_COMPLETED,
    LOST,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    claim_name_of,
    class_of,
    is_made_for,
)
from kscheduler.framework.status import Status, error_status, unresolvable
from kscheduler.snapshot.volumes import Volumes

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims in the order of the pod's volumes; as in kube-scheduler, one that the pod names twice occurs twice."""

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]  # unbound; the volume is chosen together with the node


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def has_claims(pod: Pod) -> bool:
    return any(claim_name_of(pod, volume)[0] for volume in pod.spec.volumes or ())


def find_claims(pod: Pod, volumes: Volumes) -> PodClaims | Status:
    """Return the pod's claims, or a status with the reason why the pod has to wait for one of them."""
    claims: list[PersistentVolumeClaim] = []
    for found in _claims_of(pod, volumes):
        if isinstance(found, Status):
            return found
        claims.append(found)
    # What is wrong with any claim comes before what is to be done for the others.
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    has_immediate = False
    for claim in claims:
        if is_fully_bound(claim):
            bound.append(claim)
            continue
        waits = _waits_for_consumer(claim, volumes)
        if isinstance(waits, Status):
            return waits
        if waits and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            has_immediate = True  # the volume controller binds it, with or without this pod
    if has_immediate:
        return unresolvable(UNBOUND_IMMEDIATE)
    return PodClaims(tuple(bound), tuple(delayed))


def _claims_of(pod: Pod, volumes: Volumes) -> Iterator[PersistentVolumeClaim | Status]:
    for volume in pod.spec.volumes or ():
        name, is_ephemeral = claim_name_of(pod, volume)
        if name:
            claim = volumes.claim(pod.metadata.namespace, name)
            yield _missing(name, is_ephemeral) if claim is None else _usable(claim, pod, is_ephemeral)


def _missing(name: str, is_ephemeral: bool) -> Status:
    if is_ephemeral:
        return unresolvable(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
    return unresolvable(f'persistentvolumeclaim "{name}" not found')


def _usable(claim: PersistentVolumeClaim, pod: Pod, is_ephemeral: bool) -> PersistentVolumeClaim | Status:
    name = claim.metadata.name
    if claim.status.phase == LOST:
        volume = claim.spec.volume_name
        return unresolvable(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
    if claim.metadata.deletion_timestamp is not None:
        return unresolvable(f'persistentvolumeclaim "{name}" is being deleted')
    if is_ephemeral and not is_made_for(claim, pod):
        return unresolvable(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
    return claim


def _waits_for_consumer(claim: PersistentVolumeClaim, volumes: Volumes) -> bool | Status:
    name = class_of(claim)
    storage_class = volumes.storage_class(name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return error_status(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
