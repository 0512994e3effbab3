"""Which changes may help a pod that this plugin has rejected."""

from __future__ import annotations

from kscheduler.api.objects import Pod
from kscheduler.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment, claim_name_of
from kscheduler.framework.plugins.nodevolumelimits.attached import limits_of
from kscheduler.framework.plugins.nodevolumelimits.counting import may_count
from kscheduler.framework.plugins.nodevolumelimits.migration import NotTranslatable, translate_inline


def after_csi_node_updated(waiting: Pod, old: object, new: object) -> bool:
    """Did a limit rise? A driver without one counts as limited to 0, as kube-scheduler has it."""
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    before = limits_of(old)
    return any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())


def after_pod_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Only pods that had a place are reported; of those that were assumed there, the object does not say so."""
    return not isinstance(old, Pod) or any(map(may_count, old.spec.volumes or ()))


def after_claim_added(waiting: Pod, old: object, new: object) -> bool:
    if not isinstance(new, PersistentVolumeClaim):
        return True
    if new.metadata.namespace != waiting.metadata.namespace:
        return False
    return any(claim_name_of(waiting, volume)[0] == new.metadata.name for volume in waiting.spec.volumes or ())


def after_attachment_deleted(waiting: Pod, old: object, new: object) -> bool:
    """Claims may need what has become free, in-tree volumes only what their own driver has given up."""
    if not isinstance(old, VolumeAttachment):
        return True
    for volume in waiting.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            return True
        try:
            csi = translate_inline(volume)
        except NotTranslatable:
            return True
        if csi is not None and csi.driver == old.spec.attacher:
            return True
    return False
