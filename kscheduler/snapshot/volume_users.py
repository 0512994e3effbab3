"""Which pods on nodes use volumes that are not theirs alone: by claim, by disk and by row.

A disk is what a pod names itself, without a claim, and what not every pod may mount beside others: four kinds of
in-tree volumes. Most pods use neither claims nor disks and cost a look at their volumes. Whoever keeps answers by row
is told of the rows whose users changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kscheduler.api.objects import Pod, Volume
from kscheduler.errors import InternalError
from kscheduler.snapshot.pod_info import PodInfo

Disk = tuple[str, ...]  # the kind, and what tells two disks of this kind apart


class Mount(NamedTuple):
    disk: Disk
    read_only: bool  # two mounts of one disk get along only if both are


class VolumeUsers:
    def __init__(self) -> None:
        self._claims: dict[str, dict[int, int]] = {}  # namespace/claim -> row -> volumes of pods there that name it
        self._mounts: dict[Mount, dict[int, int]] = {}  # mount -> row -> volumes of pods there that are one
        self._pods: dict[int, dict[str, PodInfo]] = {}  # row -> pod uid -> pod with claims or in-tree volumes
        self._watchers: list[Callable[[int], None]] = []

    # --- writing ---

    def clear(self) -> None:
        """No pod on any row. The caller tells those who watch, when there are pods again."""
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
        self.tell(row)

    def remove(self, row: int, pod: PodInfo) -> None:
        """The pod may be a later version than the one that was added; its volumes never change."""
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
        self.tell(row)

    # --- reading ---

    def is_claim_in_use(self, namespace: str, claim: str) -> bool:
        """Does a pod on a node name the claim? Claims made for one pod alone do not count."""
        return f"{namespace}/{claim}" in self._claims

    def rows_in_conflict(self, mounts: Iterable[Mount]) -> list[int]:
        """The rows with a pod that one of the mounts does not get along with, ascending."""
        rows: set[int] = set()
        for mount in mounts:
            rows.update(self._mounts.get(Mount(mount.disk, False), ()))
            if not mount.read_only:
                rows.update(self._mounts.get(Mount(mount.disk, True), ()))
        return sorted(rows)

    def pods_on(self, row: int) -> Iterable[PodInfo]:
        """The pods on a row that have claims or in-tree volumes; the others use no volume that counts."""
        return self._pods.get(row, {}).values()

    # --- watching ---

    def watch(self, listener: Callable[[int], None]) -> None:
        """`listener` gets every row whose users change from now on, or whose node comes or goes."""
        self._watchers.append(listener)

    def tell(self, row: int) -> None:
        for listener in self._watchers:
            listener(row)

    # --- self-test ---

    def check(self, pods: Iterable[tuple[int, PodInfo]]) -> None:
        """Assert that this is what the pods, each with its row, use. Raises InternalError at the first difference."""
        expected = VolumeUsers()
        for row, pod in pods:
            expected.add(row, pod)
        for noun, found, wanted in (
            ("claims", self._claims, expected._claims),
            ("disks", self._mounts, expected._mounts),
            ("pods with volumes", _uids(self._pods), _uids(expected._pods)),
        ):
            if found != wanted:
                raise InternalError(f"{noun} in use: expected {wanted}, found {found}")


def mounts_of(pod: Pod) -> list[Mount]:
    """The disks a pod names itself; one that is reached in several ways (monitors) is there once for each."""
    return [mount for volume in pod.spec.volumes or () for mount in _mounts(volume)]


def conflict(one: Iterable[Mount], other: Iterable[Mount]) -> bool:
    """Are there two mounts of one disk that do not get along?"""
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
        # Images of one name are the same if their clusters share a monitor.
        for monitor in rbd.monitors:
            yield Mount(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)


def _named_claims(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"


def _count(rows: dict[int, int], row: int) -> None:
    rows[row] = rows.get(row, 0) + 1


def _uncount(rows: dict[int, int], row: int) -> bool:
    """One less on the row; is anything left on any row?"""
    rows[row] -= 1
    if not rows[row]:
        del rows[row]
    return bool(rows)


def _uids(pods: dict[int, dict[str, PodInfo]]) -> dict[int, set[str]]:
    return {row: set(by_uid) for row, by_uid in pods.items()}
