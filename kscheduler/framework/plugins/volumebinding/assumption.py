"""The PersistentVolumes and claims that a decision changes, assumed until they are written and the watch shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kscheduler.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kscheduler.framework.plugins.volumebinding.matching import is_reserved_for
from kscheduler.snapshot.volumes import Volumes


@dataclass(slots=True)
class StaticBinding:
    """An existing volume for a claim: the assumed volume until it is written, then the apiserver's answer."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(slots=True)
class Assumption:
    """The volumes and claims that one pod's decision assumes, or has already written.

    Taking an assumption back leaves written objects alone: the apiserver has given them a new version, which the watch
    will bring.
    """

    bindings: list[StaticBinding] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)

    def take_back(self, volumes: Volumes) -> None:
        """Undo the assumptions that are not written yet. Idempotent."""
        for binding in self.bindings:
            volumes.restore_volume(binding.volume)
        for claim in self.provisions:
            volumes.restore_claim(claim)


def assume(
    volumes: Volumes,
    bindings: Sequence[tuple[PersistentVolumeClaim, PersistentVolume]],
    provisions: Sequence[PersistentVolumeClaim],
    node_name: str,
) -> Assumption:
    """Assume these bindings and provisions for a pod on the node.

    If one fails, none is assumed; raises InternalError.
    """
    assumption = Assumption()
    try:
        for claim, volume in bindings:
            changed = bound_to(volume, claim)
            if changed is not volume:
                volumes.assume_volume(changed)
            assumption.bindings.append(StaticBinding(claim, changed))
        for claim in {claim.key: claim for claim in provisions}.values():  # one is asked for once
            changed_claim = provisioned_for(claim, node_name)
            volumes.assume_claim(changed_claim)
            assumption.provisions.append(changed_claim)
    except Exception:
        assumption.take_back(volumes)
        raise
    return assumption


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume with a claimRef to the claim, including the uid; the same object if it already has that."""
    annotations, spec = volume.metadata.annotations or {}, volume.spec
    if not is_reserved_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        annotations = {**annotations, BOUND_BY_CONTROLLER: "yes"}
        volume = replace(volume, metadata=replace(volume.metadata, annotations=annotations))
    if spec.claim_ref is None or not _names_fully(spec.claim_ref, claim):
        volume = replace(volume, spec=replace(spec, claim_ref=_reference(claim)))
    return volume


def provisioned_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    annotations = {**(claim.metadata.annotations or {}), SELECTED_NODE: node_name}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _names_fully(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    wanted = claim.metadata
    return (reference.namespace, reference.name, reference.uid) == (wanted.namespace, wanted.name, wanted.uid)


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    metadata = claim.metadata
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
