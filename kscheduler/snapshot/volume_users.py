"""The pods on nodes that use volumes which other pods may use too: by claim, by disk and by row.

A disk is an in-tree volume that a pod names without a claim, of the four types that VolumeRestrictions does not let
every two pods share. Most pods use neither claims nor disks. Listeners that keep results by row are notified of the
rows whose pods with such volumes changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kscheduler.api.objects import Pod, Volume
from kscheduler.snapshot.pod_info import PodInfo

Disk = tuple[str, ...]  # the kind and the identity of a disk


class Mount(NamedTuple):
    disk: Disk
    read_only: bool  # two mounts of one disk conflict unless both are


class VolumeUsers:
    def __init__(self) -> None:
        self._claims: dict[str, dict[int, int]] = {}  # namespace/claim -> row -> volumes of pods there that name it
        self._mounts: dict[Mount, dict[int, int]] = {}  # mount -> row -> volumes of pods there that are this mount
        self._pods: dict[int, dict[str, PodInfo]] = {}  # row -> pod uid -> pod with claims or in-tree volumes
        self._watchers: list[Callable[[int], None]] = []

    # --- writing ---

    def clear(self) -> None:
        """Remove all pods without notifying listeners; the caller does so (`notify`) after adding the pods again."""
        self._claims.clear()
        self._mounts.clear()
        self._pods.clear()

    def add(self, row: int, pod: PodInfo) -> None:
        if not pod.uses_storage:
            return
        self._pods.setdefault(row, {})[pod.uid] = pod
        for claim in _named_claims(pod.pod):
            _count(self._claims.setdefault(claim, {}), row)
        for mount in mounts_of(pod.pod):
            _count(self._mounts.setdefault(mount, {}), row)
        self.notify(row)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Remove a pod from a row (node).

        `pod` may be a later version than the one added: a pod's volumes never change.
        """
        pods = self._pods.get(row, {})
        known = pods.pop(pod.uid, None)
        if known is None:
            return
        if not pods:
            del self._pods[row]
        for claim in _named_claims(known.pod):
            if not _uncount(self._claims[claim], row):
                del self._claims[claim]
        for mount in mounts_of(known.pod):
            if not _uncount(self._mounts[mount], row):
                del self._mounts[mount]
        self.notify(row)

    # --- reading ---

    def is_claim_in_use(self, namespace: str, claim: str) -> bool:
        """Return True if a pod on a node names the claim. Claims of generic ephemeral volumes do not count."""
        return f"{namespace}/{claim}" in self._claims

    def rows_in_conflict(self, mounts: Iterable[Mount]) -> list[int]:
        """Return the rows (nodes), ascending, with a pod whose disk mounts conflict with one of `mounts`."""
        rows: set[int] = set()
        for mount in mounts:
            rows.update(self._mounts.get(Mount(mount.disk, False), ()))
            if not mount.read_only:
                rows.update(self._mounts.get(Mount(mount.disk, True), ()))
        return sorted(rows)

    def pods_on(self, row: int) -> Iterable[PodInfo]:
        """Return the pods on a row (node) that use claims or in-tree volumes, which volume plugins have to consider."""
        return self._pods.get(row, {}).values()

    # --- watching ---

    def watch(self, listener: Callable[[int], None]) -> None:
        """Register `listener`, called with every row whose volume users change or whose node is added or removed."""
        self._watchers.append(listener)

    def notify(self, row: int) -> None:
        for listener in self._watchers:
            listener(row)


def mounts_of(pod: Pod) -> list[Mount]:
    """Return a pod's mounts of in-tree disks named without a claim; a Ceph RBD image has one mount for each monitor."""
    return [mount for volume in pod.spec.volumes or () for mount in _mounts(volume)]


def conflict(one: Iterable[Mount], other: Iterable[Mount]) -> bool:
    """Return True if a mount in `one` and a mount in `other` are of one disk and not both read-only."""
    writable: dict[Disk, bool] = {}  # disk -> does `one` mount it for writing?
    for mount in one:
        writable[mount.disk] = writable.get(mount.disk, False) or not mount.read_only
    return any(mount.disk in writable and (writable[mount.disk] or not mount.read_only) for mount in other)


def _mounts(volume: Volume) -> Iterator[Mount]:
    if (gce := volume.gce_persistent_disk) is not None:
        yield Mount(("gce", gce.pd_name), gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield Mount(("ebs", ebs.volume_id), False)  # not even readers may share one
    if (iscsi := volume.iscsi) is not None:
        yield Mount(("iscsi", iscsi.iqn), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        # Two RBD images with equal pool and name are one disk if their clusters share a monitor.
        for monitor in rbd.monitors:
            yield Mount(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)


def _named_claims(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"


def _count(rows: dict[int, int], row: int) -> None:
    rows[row] = rows.get(row, 0) + 1


def _uncount(rows: dict[int, int], row: int) -> bool:
    """Subtract 1 from the count of a row (node), and drop a count of 0. Returns True if any row has a count left."""
    rows[row] -= 1
    if not rows[row]:
        del rows[row]
    return bool(rows)
