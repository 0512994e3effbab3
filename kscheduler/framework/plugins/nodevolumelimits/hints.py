"""Queueing hints for pods that NodeVolumeLimits has rejected."""

from __future__ import annotations

from kscheduler.api.objects import Pod
from kscheduler.api.storage import CSINode, VolumeAttachment
from kscheduler.framework.csi_migration import NotTranslatable, translate_inline
from kscheduler.framework.events import Grouping
from kscheduler.framework.plugins.nodevolumelimits.attached import limits_of
from kscheduler.framework.plugins.nodevolumelimits.counting import may_count


def after_csi_node_updated(waiting: Pod, old: object, new: object) -> bool:
    """Return True if a driver's limit rose. A driver without a limit counts as limited to 0, as in kube-scheduler."""
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    before = limits_of(old)
    return any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())


def after_pod_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the deleted pod had volumes that may count. Called only for pods that were on a node."""
    return not isinstance(old, Pod) or any(map(may_count, old.spec.volumes or ()))


def after_attachment_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the waiting pod may use a volume of the driver of the deleted attachment.

    It may if it has claims, whose drivers are not looked up here.
    """
    if not isinstance(old, VolumeAttachment):
        return True
    drivers = _drivers(waiting)
    return drivers is None or old.spec.attacher in drivers


def _drivers(pod: Pod) -> frozenset[str] | None:
    """Return the drivers for whose attachments the pod may wait; None: any. Generic ephemeral volumes do not count."""
    drivers = set()
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            return None
        try:
            csi = translate_inline(volume)
        except NotTranslatable:
            return None
        if csi is not None:
            drivers.add(csi.driver)
    return frozenset(drivers)


BY_DRIVERS = Grouping(lambda pod: (_drivers(pod.pod),))
