"""Which changes of claims, classes, drivers and capacities may help a pod that this plugin has rejected.

As in kube-scheduler, but for a driver that stops publishing capacities: there only pods with an inline volume of the
driver are woken, here also those with claims, which are the ones that may have waited for room.
"""

from __future__ import annotations

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
from kscheduler.framework.plugins.volumebinding.claims import has_claims
from kscheduler.framework.plugins.volumebinding.provisioning import volume_limit


def after_claim(waiting: Pod, old: object, new: object) -> bool:
    """Only the pod's own claims matter, but nearly every change of those does."""
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
    name = new.metadata.name
    return has_claims(waiting) or any(
        volume.csi is not None and volume.csi.driver == name for volume in waiting.spec.volumes or ()
    )


def after_capacity(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return True
    before, after = volume_limit(old), volume_limit(new)
    return after is not None and (before is None or after > before)


def _migrated(csi_node: CSINode) -> str | None:
    return (csi_node.metadata.annotations or {}).get(MIGRATED_PLUGINS)
