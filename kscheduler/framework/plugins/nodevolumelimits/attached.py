"""The number of attached volumes of each CSI driver on each node, and the nodes' limits.

`NodeVolumes` holds the counts of one node. `AttachedVolumes` keeps those of all nodes with limits: a node is read again
only after something that its counts depend on has changed, and is found by how many more volumes it can take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kscheduler.api.storage import CSINode, PersistentVolume, VolumeAttachment
from kscheduler.framework.plugins.nodevolumelimits.counting import Counted, Counting, unique_name
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes


@dataclass(frozen=True, slots=True)
class NodeVolumes:
    """The volumes of a node with limits.

    `fault`: why they cannot be counted, which ends a pod's cycle with an error.
    """

    used: Counted  # the volumes of the pods on the node
    free: Mapping[str, int]  # driver -> how many more volumes can be attached, may be negative; no entry: no limit
    fault: Status | None = None

    def takes(self, new: Counted) -> bool:
        """Return True if the node has room for the new volumes; those that its pods already use need none."""
        wanted = Counter(driver for name, driver in new.items() if name not in self.used)
        return all(count <= self.free.get(driver, count) for driver, count in wanted.items())


def read_node(counting: Counting, volumes: Volumes, name: str, pods: Iterable[PodInfo]) -> NodeVolumes | None:
    """Count the volumes of a node with these pods; None if the node has no limits."""
    limits = limits_of(volumes.csi_node(name))
    if not limits:
        return None
    used: Counted = {}
    for pod in pods:
        counted = counting.attachable(pod.pod, migrates=True, is_new=False)
        if isinstance(counted, Status):
            return NodeVolumes({}, {}, counted)
        used.update(counted)
    # A volume may be attached without a pod that uses it: before the pod is seen, and after it has gone.
    attached = _attachments(counting, volumes, name)
    counts = Counter(used.values())
    counts.update(driver for volume, driver in attached.items() if volume not in used)
    return NodeVolumes(used, {driver: limit - counts[driver] for driver, limit in limits.items()})


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """Return driver -> how many volumes can be attached to the node; no entry: no limit."""
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def is_installed(driver: str, csi_node: CSINode | None) -> bool:
    """Return True if a CSI driver is installed on the node of this CSINode; False if there is no CSINode."""
    return csi_node is not None and any(each.name == driver for each in csi_node.spec.drivers)


def _attachments(counting: Counting, volumes: Volumes, node_name: str) -> Counted:
    found: Counted = {}
    for attachment in volumes.attachments_of(node_name):
        driver, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
        if not driver or name is None:
            continue
        counting.read_from.add((PersistentVolume, name))
        volume = volumes.reported_volume(name)
        if volume is not None and volume.spec.csi is not None:
            found[unique_name(driver, volume.spec.csi.volume_handle)] = driver
    return found


_K = TypeVar("_K", bound=Hashable)


class _RowsOf(Generic[_K]):
    """A map from keys to rows (nodes). Nearly every key has one row only, which is kept without a set."""

    def __init__(self) -> None:
        self._one: dict[_K, int] = {}
        self._several: dict[_K, set[int]] = {}  # two or more; these keys are not in `_one`

    def of(self, key: _K) -> Collection[int]:
        row = self._one.get(key)
        return (row,) if row is not None else self._several.get(key, ())

    def add(self, key: _K, row: int) -> None:
        several = self._several.get(key)
        if several is not None:
            several.add(row)
        elif self._one.setdefault(key, row) != row:
            self._several[key] = {self._one.pop(key), row}

    def discard(self, key: _K, row: int) -> None:
        if self._one.get(key) == row:
            del self._one[key]
        elif (several := self._several.get(key)) is not None:
            several.discard(row)
            if len(several) == 1:
                self._one[key] = self._several.pop(key).pop()


class AttachedVolumes:
    """The counts of attached volumes for all rows (nodes). Call `refresh` before reading them."""

    def __init__(self, table: NodeTable, volumes: Volumes) -> None:
        self._table = table
        self._volumes = volumes
        self._stale: set[int] = {info.row for info in table}  # rows to read again, those without a node included
        self._rows: dict[int, NodeVolumes] = {}  # row -> its volumes, if it has limits
        self._by_free: dict[str, dict[int, set[int]]] = {}  # driver -> how many more volumes -> rows
        self._by_volume: _RowsOf[str] = _RowsOf()  # unique name -> rows where pods use the volume
        self._read_from: dict[int, set[tuple[type, str]]] = {}  # row -> objects on which its counts depend
        self._readers: _RowsOf[tuple[type, str]] = _RowsOf()  # object -> rows whose counts depend on it
        self.faulty: set[int] = set()  # rows whose volumes cannot be counted
        self.with_csi_node: set[int] = set()  # rows where in-tree volumes count
        self._drivers: dict[int, frozenset[str]] = {}  # row -> the CSI drivers that are installed there
        self._with_driver: dict[str, set[int]] = {}  # driver -> rows where it is installed
        table.volume_users.watch(self._stale.add)
        volumes.watch(self._on_report)

    def _on_report(self, kind: type, name: str) -> None:
        if kind is CSINode or kind is VolumeAttachment:
            row = self._table.row_of(name)
            if row is not None:
                self._stale.add(row)
        else:
            self._stale.update(self._readers.of((kind, name)))

    # --- reading ---

    def of(self, row: int) -> NodeVolumes | None:
        return self._rows.get(row)

    def with_driver(self, driver: str) -> Collection[int]:
        """Return the rows (nodes) on which a CSI driver is installed."""
        return self._with_driver.get(driver, ())

    def rows_without_room(self, new: Counted) -> list[int]:
        """Return the rows (nodes) that have no room for the new volumes, ascending; rows in `faulty` are left out."""
        rows: set[int] = set()
        for driver, count in Counter(new.values()).items():
            for free, at in self._by_free.get(driver, {}).items():
                if free < count:
                    rows |= at
        sharing = {row for volume in new for row in self._by_volume.of(volume)}
        return sorted(row for row in rows if row not in sharing or not self._rows[row].takes(new))

    # --- keeping up ---

    def refresh(self) -> None:
        while self._stale:
            row = self._stale.pop()
            self._drop(row)
            node = self._table.find(row)
            if node is not None:
                self._read(row, node.name)

    def _read(self, row: int, node_name: str) -> None:
        csi_node = self._volumes.csi_node(node_name)
        if csi_node is None:
            return
        self.with_csi_node.add(row)
        self._drivers[row] = frozenset(driver.name for driver in csi_node.spec.drivers)
        for name in self._drivers[row]:
            self._with_driver.setdefault(name, set()).add(row)
        counting = Counting(self._volumes)
        node = read_node(counting, self._volumes, node_name, self._table.volume_users.pods_on(row))
        if node is None:
            return
        self._rows[row] = node
        self._read_from[row] = counting.read_from
        for key in counting.read_from:
            self._readers.add(key, row)
        if node.fault is not None:
            self.faulty.add(row)
        for driver, free in node.free.items():
            self._by_free.setdefault(driver, {}).setdefault(free, set()).add(row)
        for volume in node.used:
            self._by_volume.add(volume, row)

    def _drop(self, row: int) -> None:
        self.with_csi_node.discard(row)
        self.faulty.discard(row)
        for driver in self._drivers.pop(row, ()):
            self._with_driver[driver].discard(row)
            if not self._with_driver[driver]:
                del self._with_driver[driver]
        node = self._rows.pop(row, None)
        if node is None:
            return
        for key in self._read_from.pop(row):
            self._readers.discard(key, row)
        for driver, free in node.free.items():
            by_free = self._by_free[driver]
            by_free[free].discard(row)
            if not by_free[free]:
                del by_free[free]
            if not by_free:
                del self._by_free[driver]
        for volume in node.used:
            self._by_volume.discard(volume, row)
