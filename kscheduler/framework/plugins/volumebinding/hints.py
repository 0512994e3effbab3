"""Queueing hints for pods that this plugin has rejected: claims, classes, drivers and capacities.

As in kube-scheduler, but for a driver that stops publishing capacities: there only pods with an inline volume of the
driver are woken, here also those with claims, which are the ones that may have waited for room.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import cast

from kscheduler.api.objects import Pod
from kscheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    claim_name_of,
)
from kscheduler.framework.events import Grouping
from kscheduler.framework.plugins.volumebinding.claims import has_claims
from kscheduler.framework.plugins.volumebinding.provisioning import volume_limit
from kscheduler.snapshot.pod_info import PodInfo


def after_claim(waiting: Pod, old: object, new: object) -> bool:
    """Hint yes for nearly every change of the pod's own claims, and for no other."""
    if not isinstance(new, PersistentVolumeClaim):
        return True
    if new.metadata.namespace != waiting.metadata.namespace:
        return False
    return any(claim_name_of(waiting, volume)[0] == new.metadata.name for volume in waiting.spec.volumes or ())


def after_storage_class(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return True
    return (old.allowed_topologies or None) != (new.allowed_topologies or None)


def after_csi_node(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    return _migrated(old) != _migrated(new)


def after_csi_driver(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return True
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return False
    return has_claims(waiting) or new.metadata.name in _inline_drivers(waiting)


def after_capacity(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return True
    before, after = volume_limit(old), volume_limit(new)
    return after is not None and (before is None or after > before)


def _migrated(csi_node: CSINode) -> str | None:
    return (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS)


def _inline_drivers(pod: Pod) -> frozenset[str]:
    return frozenset(volume.csi.driver for volume in pod.spec.volumes or () if volume.csi is not None)


# --- pods that are asked about together -------------------------------------------------------------------------


class ClaimIndex:
    """A hint index by claim; pods that have the same claims are one group."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}
        self._of_claim: dict[str, dict[Hashable, None]] = {}  # namespace/name -> keys of the pods that have it

    def add(self, key: Hashable) -> None:
        self._keys[key] = None
        for claim in cast(frozenset[str], key):
            self._of_claim.setdefault(claim, {})[key] = None

    def remove(self, key: Hashable) -> None:
        del self._keys[key]
        for claim in cast(frozenset[str], key):
            keys = self._of_claim[claim]
            del keys[key]
            if not keys:
                del self._of_claim[claim]

    def find(self, old: object, new: object) -> Iterable[Hashable]:
        found = self._of_claim.get(new.key, {}) if isinstance(new, PersistentVolumeClaim) else self._keys
        return tuple(found)


def _claims_of(pod: PodInfo) -> Hashable:
    """Return namespace/name of the pod's claims."""
    names = (claim_name_of(pod.pod, volume)[0] for volume in pod.pod.spec.volumes or ())
    return frozenset(f"{pod.pod.metadata.namespace}/{name}" for name in names if name)


BY_CLAIMS = Grouping(_claims_of, ClaimIndex)
BY_DRIVERS = Grouping(lambda pod: (has_claims(pod.pod), _inline_drivers(pod.pod)))
