"""Queueing hints for pods that VolumeBinding has rejected, about StorageClasses, CSI drivers and storage capacities.

As in kube-scheduler, except for a driver that stops publishing capacities: there only pods with an inline volume of the
driver are requeued, here also those with claims, since these may have waited for free capacity.
"""

from __future__ import annotations

from kscheduler.api.objects import Pod
from kscheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
)
from kscheduler.framework.events import Grouping
from kscheduler.framework.plugins.volumebinding.claims import has_claims
from kscheduler.framework.plugins.volumebinding.provisioning import volume_limit


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


BY_DRIVERS = Grouping(lambda pod: (has_claims(pod.pod), _inline_drivers(pod.pod)))
