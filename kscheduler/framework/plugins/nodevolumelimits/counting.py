"""Finds the volumes of a pod that count toward a node's attachment limits: unique name -> CSI driver.

A volume counts once, however many pods use it. A claim without a volume counts as a volume of its StorageClass's
provisioner, under a name of its own. Unknown claims are ignored for pods on nodes; a new pod needs all of its claims.
"""

from __future__ import annotations

from kscheduler.api.objects import Pod, Volume
from kscheduler.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    claim_name_of,
    class_of,
    is_made_for,
)
from kscheduler.framework.csi_migration import (
    BY_PLUGIN,
    MIGRATED,
    CSIVolume,
    NotTranslatable,
    is_migratable,
    kind_of,
    translate_inline,
    translate_volume,
)
from kscheduler.framework.status import Status, error_status, unresolvable
from kscheduler.snapshot.volumes import Volumes

# Stands before the names of claims that have no volume yet; no handle begins like this.
_UNBOUND = "\0"

Counted = dict[str, str]  # "driver/handle" -> driver


class Counting:
    """Finds the volumes of pods that count, and records which objects were read for that.

    `read_from`: (kind, name) of each object; the result is valid until one of them changes.
    """

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes
        self.read_from: set[tuple[type, str]] = set()

    def attachable(self, pod: Pod, *, migrates: bool, is_new: bool) -> Counted | Status:
        """Return the pod's volumes that count; or the status that keeps a new pod off the node, or an error.

        `migrates`: in-tree volumes count as volumes of their CSI drivers, as they do on nodes with a CSINode.
        """
        found: Counted = {}
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is None and volume.ephemeral is None:
                csi = self._inline(volume) if migrates else None
            else:
                csi = self._claimed(pod, volume, migrates=migrates, is_new=is_new)
            if isinstance(csi, Status):
                return csi
            if csi is not None:
                found[unique_name(csi.driver, csi.handle)] = csi.driver
        return found

    def _inline(self, volume: Volume) -> CSIVolume | Status | None:
        if kind_of(volume) not in MIGRATED:
            return None
        try:
            return translate_inline(volume)
        except NotTranslatable as error:
            return error_status(f"converting volume({volume.name}) from inline to csi: {error}")

    def _claimed(self, pod: Pod, volume: Volume, *, migrates: bool, is_new: bool) -> CSIVolume | Status | None:
        name, is_own = claim_name_of(pod, volume)
        if not name:
            return error_status("PersistentVolumeClaim had no name")
        key = f"{pod.metadata.namespace}/{name}"
        self.read_from.add((PersistentVolumeClaim, key))
        claim = self._volumes.reported_claim(pod.metadata.namespace, name)
        if claim is None:
            return unresolvable(f'looking up PVC {key}: persistentvolumeclaim "{name}" not found') if is_new else None
        if is_own and not is_made_for(claim, pod):
            return error_status(f"PVC {key} was not created for pod {pod.key} (pod is not owner)")
        csi = self._behind(claim, migrates)
        return csi if csi is not None and csi.driver and csi.handle else None

    def _behind(self, claim: PersistentVolumeClaim, migrates: bool) -> CSIVolume | None:
        """Return the volume of a claim, or the one that will be provisioned for it; None if it does not count."""
        name = claim.spec.volume_name
        if not name:
            return self._provided(claim, migrates)
        self.read_from.add((PersistentVolume, name))
        volume = self._volumes.reported_volume(name)
        if volume is None:  # gone, or not there yet
            return self._provided(claim, migrates)
        if volume.spec.csi is not None:
            return CSIVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        if not migrates or kind_of(volume) not in MIGRATED:
            return None
        try:
            return translate_volume(volume)
        except NotTranslatable:
            return None

    def _provided(self, claim: PersistentVolumeClaim, migrates: bool) -> CSIVolume | None:
        """Return the volume that the provisioner of the claim's StorageClass will make; None if it does not count."""
        name = class_of(claim)
        if not name:
            return None
        self.read_from.add((StorageClass, name))
        storage_class = self._volumes.storage_class(name)
        if storage_class is None:
            return None
        in_tree = BY_PLUGIN.get(storage_class.provisioner)
        if in_tree is None:
            return CSIVolume(storage_class.provisioner, _UNBOUND + claim.key)
        return CSIVolume(in_tree.driver, _UNBOUND + claim.key) if migrates and in_tree in MIGRATED else None


def may_count(volume: Volume) -> bool:
    """Return True for a volume type that kube-scheduler's plugin considers, though some of these never count."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or is_migratable(volume)


def unique_name(driver: str, handle: str) -> str:
    return f"{driver}/{handle}"
