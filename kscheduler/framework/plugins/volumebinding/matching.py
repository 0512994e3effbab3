"""Chooses an existing volume for a claim on a node: one reserved for the claim, else the smallest that fits.

Among equals the first by name is chosen. A claim's conditions that do not depend on the node are its VolumeRequest; the
volume index keeps the volumes that meet it, so that for a node only the first accessible one has to be found.
"""

from __future__ import annotations

from dataclasses import dataclass

from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.quantity import parse_milli
from kscheduler.api.storage import AVAILABLE, STORAGE, PersistentVolume, PersistentVolumeClaim
from kscheduler.errors import DecodeError

FILESYSTEM = "Filesystem"


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """A claim's conditions on its volume, apart from the StorageClass.

    Claims with equal requests accept the same volumes.
    """

    size_milli: int
    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: CompiledLabelSelector | None

    def is_met_by_reserved(self, volume: PersistentVolume) -> bool:
        """Return True if a volume that is reserved for the claim fits; its selector and access modes need not match."""
        spec = volume.spec
        size = size_milli(volume)
        return (
            size is not None
            and size >= self.size_milli
            and (spec.volume_mode or FILESYSTEM) == self.volume_mode
            and (spec.volume_attributes_class_name or "") == self.attributes_class
            and volume.metadata.deletion_timestamp is None
        )

    def is_met_by_free(self, volume: PersistentVolume) -> bool:
        """Return True if a volume that is not reserved for any claim fits."""
        if volume.spec.claim_ref is not None:
            return False
        if volume.status.phase != AVAILABLE:
            return False  # on its way there, or gone: binding it now would only meet a conflict
        return (
            self.is_met_by_reserved(volume)
            and (self.selector is None or self.selector.matches(volume.metadata.labels or {}))
            and self.access_modes.issubset(volume.spec.access_modes or ())
        )


def request_of(claim: PersistentVolumeClaim) -> VolumeRequest:
    """Return a claim's conditions. Raises DecodeError, with the claim and the field, if they cannot be read."""
    spec, selector = claim.spec, None
    if spec.selector is not None:
        selector = compile_label_selector(spec.selector, f"claim {claim.key}: spec.selector")
    return VolumeRequest(
        requested_milli(claim),
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes or ()),
        selector,
    )


def requested_milli(claim: PersistentVolumeClaim) -> int:
    """Return the requested size in thousandths of a byte; 0 if the claim states none. Raises DecodeError."""
    requests = claim.spec.resources.requests if claim.spec.resources else None
    amount = (requests or {}).get(STORAGE)
    return 0 if amount is None else parse_milli(amount, f"claim {claim.key}: spec.resources.requests.storage")


def size_milli(volume: PersistentVolume) -> int | None:
    """Return the volume's size in thousandths of a byte; None if it cannot be read: no claim gets such a volume."""
    amount = (volume.spec.capacity or {}).get(STORAGE)
    try:
        return 0 if amount is None else parse_milli(amount, f"persistent volume {volume.key}: spec.capacity.storage")
    except DecodeError:
        return None


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if the volume's claimRef names this claim; a user who reserves a volume may leave the uid empty."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and reference.namespace == claim.metadata.namespace
        and reference.uid in ("", claim.metadata.uid)
    )
