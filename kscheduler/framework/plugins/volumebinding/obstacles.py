"""The reasons why a node does not fit a pod's volumes, as bit flags, reported in kube-scheduler's order and words."""

from __future__ import annotations

from kscheduler.framework.status import Status, unresolvable

NODE_CONFLICT = 1
BIND_CONFLICT = 2
NOT_ENOUGH_SPACE = 4
VOLUME_MISSING = 8

NODE_CONFLICT_REASON = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT_REASON = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE_REASON = "node(s) did not have enough free storage"
VOLUME_MISSING_REASON = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_REASONS = {
    NODE_CONFLICT: NODE_CONFLICT_REASON,
    BIND_CONFLICT: BIND_CONFLICT_REASON,
    NOT_ENOUGH_SPACE: NOT_ENOUGH_SPACE_REASON,
    VOLUME_MISSING: VOLUME_MISSING_REASON,
}
_STATUSES = [
    unresolvable(*(reason for obstacle, reason in _REASONS.items() if obstacle & total))
    for total in range(sum(_REASONS) + 1)
]


def status_of(obstacles: int) -> Status:
    return _STATUSES[obstacles]
