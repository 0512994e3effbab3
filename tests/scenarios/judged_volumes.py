"""A world with storage, and a judge of what becomes of volumes and of the pods that use them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.api.quantity import parse_milli
from kscheduler.api.storage import (
    AVAILABLE,
    BIND_COMPLETED,
    LOST,
    SELECTED_NODE,
    STORAGE,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    claim_name_of,
)
from kscheduler.client.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tests.scenarios.fitting import obstacles
from tests.scenarios.storage_world import CSI, StorageWorld

# For so long after a claim, a volume or a node was taken away a pod may be bound that was decided before.
DISTURBED_S = 90.0
NODES = 3


class VolumesWorld(StorageWorld):
    """Its nodes have a CSI driver. What the judge finds is among the violations, or comes from a method `check_*`."""

    def __init__(self, *, late_s: float = 0.0, **options: Any) -> None:
        """`late_s`: how long the volume controller takes."""
        super().__init__(controller=False, **options)
        self.start_controller(late_s)
        self.run_kubelets()
        for index in range(NODES):  # the driver's volumes can be used in one zone
            drivers = [CSINodeDriver(CSI, topology_keys=["zone"])]
            self.cluster.create_object(CSINode(ObjectMeta(name=f"n{index}"), CSINodeSpec(drivers)))
        self._by_hand = False
        self._disturbed: dict[str, float] = {}  # key of a claim, volume or node -> when it was last changed by hand
        self.cluster.store(PERSISTENT_VOLUMES).subscribe(self._volume_changed)
        self.cluster.store(PODS).subscribe(self._pod_changed)

    @property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return self.cluster.store(PERSISTENT_VOLUME_CLAIMS).objects

    @property
    def volumes(self) -> dict[str, PersistentVolume]:
        return self.cluster.store(PERSISTENT_VOLUMES).objects

    @contextlib.contextmanager
    def by_hand(self, *keys: str) -> Iterator[None]:
        """What users and administrators do to these objects, which nobody can foresee."""
        self._by_hand = True
        self._disturbed.update((key, self.clock.now()) for key in keys if key)  # "": a claim has no volume yet
        try:
            yield
        finally:
            self._by_hand = False

    def _is_disturbed(self, key: str) -> bool:
        return self.clock.now() - self._disturbed.get(key, float("-inf")) < DISTURBED_S

    def _blame(self, what: str) -> None:
        self.judge.violations.append(f"at {self.clock.now():g} s {what}")

    # --- at each change -------------------------------------------------------------------------------------------

    def _volume_changed(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        """A volume that is reserved for one claim is not reserved for another, unless it was freed before."""
        if before is None or after is None or self._by_hand:
            return
        old, new = before.spec.claim_ref, after.spec.claim_ref
        if old is not None and new is not None and (old.name, old.uid or new.uid) != (new.name, new.uid):
            self._blame(f"{after.key} of {old.name} {old.uid} went to {new.name} {new.uid}")

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod is bound when its volumes are, and where they can be used."""
        if before is None or after is None or before.spec.node_name or not after.spec.node_name:
            return
        node_name = after.spec.node_name
        node = self.cluster.nodes.get(node_name)
        for claim in self.claims_of(after):
            key, volume_name = (claim, "") if isinstance(claim, str) else (claim.key, claim.spec.volume_name)
            if self._is_disturbed(key) or self._is_disturbed(volume_name) or self._is_disturbed(node_name):
                continue
            if isinstance(claim, str) or not is_bound(claim):
                self._blame(f"{after.key} is bound before its claim {key}")
            elif node is None or not is_accessible(self.volumes[volume_name], node):
                self._blame(f"{after.key} is bound to {node_name}, which cannot access {volume_name}")

    def check_assumed_once(self) -> None:
        """No two volumes are assumed for one claim: a pod that is decided again has given back what it had."""
        known = self.scheduler.volumes
        assumed = [
            volume.spec.claim_ref.uid
            for name in self.volumes
            if (volume := known.volume(name)) is not known.reported_volume(name)
            and volume is not None
            and volume.spec.claim_ref is not None
        ]
        assert len(assumed) == len(set(assumed)), f"assumed twice: {assumed}. {self.describe()}"

    # --- at the end -----------------------------------------------------------------------------------------------

    def claims_of(self, pod: Pod) -> list[PersistentVolumeClaim | str]:
        """A pod's claims; the key of one that does not exist."""
        keys = [f"default/{name}" for volume in pod.spec.volumes or () if (name := claim_name_of(pod, volume)[0])]
        return [self.claims.get(key, key) for key in keys]

    def left_waiting(self) -> list[str]:
        """Pods that wait although they fit on a node, with their volumes."""
        return [
            f"{pod.key} fits on {node.key}"
            for pod in self.pending()
            if pod.metadata.deletion_timestamp is None
            for node in self.cluster.nodes.values()
            if not obstacles(pod, node, self.judge.pods_on(node.key)) and self._has_volumes_for(pod, node)
        ]

    def _has_volumes_for(self, pod: Pod, node: Node) -> bool:
        claims = self.claims_of(pod)
        return all(not isinstance(claim, str) and self._gets_volume(claim, node) for claim in claims)

    def _gets_volume(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        """Has the claim a volume for the node, or is there one for it, or can one be made?

        No pod has two claims that want one of the volumes that are there.
        """
        if claim.status.phase == LOST:
            return False
        if claim.spec.volume_name:
            volume = self.volumes.get(claim.spec.volume_name)
            return is_bound(claim) and volume is not None and is_accessible(volume, node)
        asked_for = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if asked_for is not None:
            return asked_for == node.key
        fitting = [volume for volume in self.volumes.values() if fits(volume, claim)]
        reserved = [volume for volume in fitting if volume.spec.claim_ref is not None]
        if reserved or claim.spec.storage_class_name == "wait":
            return any(is_accessible(volume, node) for volume in reserved or fitting)
        return True

    def check_reserved(self) -> None:
        """A volume that the scheduler reserved for a claim is the claim's, or has been given back."""
        for volume in self.volumes.values():
            reference = volume.spec.claim_ref
            if reference is None or not reference.uid:
                continue
            claim = self.claims.get(f"default/{reference.name}")
            if claim is not None and claim.metadata.uid == reference.uid:
                assert claim.spec.volume_name == volume.key, f"{volume.key} is kept for {claim.key}, which has another"


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def is_accessible(volume: PersistentVolume, node: Node) -> bool:
    """By volumes' affinities as they are in these worlds: labels with one of several values."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    labels = node.metadata.labels or {}
    return any(
        all(labels.get(need.key) in (need.values or ()) for need in term.match_expressions or ())
        for term in affinity.required.node_selector_terms
    )


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Is the volume reserved for the claim, or free, and large enough?"""
    reference, spec = volume.spec.claim_ref, claim.spec
    if volume.spec.storage_class_name != spec.storage_class_name or size_of(volume) < size_of(claim):
        return False
    if reference is None:
        return volume.status.phase == AVAILABLE
    return reference.name == claim.metadata.name and reference.uid in ("", claim.metadata.uid)


def size_of(item: PersistentVolume | PersistentVolumeClaim) -> int:
    if isinstance(item, PersistentVolume):
        return parse_milli((item.spec.capacity or {})[STORAGE], "size")
    assert item.spec.resources is not None
    return parse_milli((item.spec.resources.requests or {})[STORAGE], "size")
