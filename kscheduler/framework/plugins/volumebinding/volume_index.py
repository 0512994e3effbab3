"""PersistentVolumes indexed for claims: by StorageClass, by request, and by the nodes that can access them.

The index is updated as volumes change: with thousands of volumes of one class, a decision changes one of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim, class_of
from kscheduler.framework.plugins.volumebinding.accessible_nodes import (
    MAX_KEPT,
    AccessibleNodes,
    AccessibleNodesMemo,
    Labels,
)
from kscheduler.framework.plugins.volumebinding.matching import VolumeRequest, is_reserved_for, request_of, size_milli
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.volumes import Volumes

MAX_STOCKS = 64  # requests remembered for one StorageClass; claims of a StatefulSet share one


class Candidate(NamedTuple):
    """A volume with its sort key: claims prefer smaller volumes, and among these the first by name."""

    size: int
    name: str
    volume: PersistentVolume


class Stock:
    """The unreserved volumes of a StorageClass that meet one VolumeRequest, by the nodes that can access them."""

    def __init__(self, request: VolumeRequest, memo: AccessibleNodesMemo) -> None:
        self._request = request
        self._memo = memo
        self._placed: dict[str, tuple[Candidate, AccessibleNodes]] = {}  # volume -> its entry in the dicts below
        self.anywhere: dict[AccessibleNodes, list[Candidate]] = {}  # best first; not limited to hostnames
        self.by_host: dict[str, dict[AccessibleNodes, list[Candidate]]] = {}  # hostname -> volumes limited to hostnames
        self.sure_hosts: Counter[str] = Counter()  # hostname -> number of volumes that this host certainly can access

    def put(self, volume: PersistentVolume) -> None:
        size = size_milli(volume)
        if size is None or not self._request.is_met_by_free(volume):
            return
        candidate, accessible = Candidate(size, volume.metadata.name, volume), self._memo.of(volume)
        self._placed[candidate.name] = candidate, accessible
        for groups in self._groups(accessible):
            insort(groups.setdefault(accessible, []), candidate)
        if accessible.is_of_hosts:
            self.sure_hosts.update(accessible.hosts or ())

    def take(self, name: str) -> None:
        """Remove a volume that is gone or has changed, if it is here."""
        placed = self._placed.pop(name, None)
        if placed is None:
            return
        candidate, accessible = placed
        for groups in self._groups(accessible):
            found = groups[accessible]
            del found[bisect_left(found, candidate[:2])]
            if not found:
                del groups[accessible]
        for host in accessible.hosts or ():
            if not self.by_host[host]:
                del self.by_host[host]
            if accessible.is_of_hosts:
                self.sure_hosts[host] -= 1
                if not self.sure_hosts[host]:
                    del self.sure_hosts[host]

    def _groups(self, accessible: AccessibleNodes) -> Iterable[dict[AccessibleNodes, list[Candidate]]]:
        if accessible.hosts is None:
            return (self.anywhere,)
        return [self.by_host.setdefault(host, {}) for host in accessible.hosts]

    def best(self, labels: Labels, taken: Collection[str]) -> PersistentVolume | None:
        best: Candidate | None = None
        for groups in (self.anywhere, self.by_host.get(labels.get(HOSTNAME, ""))):
            for accessible, candidates in groups.items() if groups else ():
                first = next((some for some in candidates if some.name not in taken), None) if taken else candidates[0]
                if first is not None and (best is None or first < best) and accessible.matches(labels):
                    best = first
        return None if best is None else best.volume


class ClassVolumes:
    """The volumes of one StorageClass."""

    def __init__(self, memo: AccessibleNodesMemo) -> None:
        self._memo = memo
        self._volumes: dict[str, PersistentVolume] = {}
        self._reserved: dict[str, dict[str, PersistentVolume]] = {}  # claim -> volumes that name it, by name
        self._stocks: OrderedDict[VolumeRequest, Stock] = OrderedDict()

    def put(self, volume: PersistentVolume) -> None:
        """Add a volume, which must not be here yet."""
        name, reference = volume.metadata.name, volume.spec.claim_ref
        self._volumes[name] = volume
        if reference is not None:
            self._reserved.setdefault(f"{reference.namespace}/{reference.name}", {})[name] = volume
        for stock in self._stocks.values():
            stock.put(volume)

    def take(self, name: str) -> None:
        """Remove a volume, which must be here."""
        reference = self._volumes.pop(name).spec.claim_ref
        if reference is not None:
            claim = f"{reference.namespace}/{reference.name}"
            del self._reserved[claim][name]
            if not self._reserved[claim]:
                del self._reserved[claim]
        for stock in self._stocks.values():
            stock.take(name)

    def stock(self, request: VolumeRequest) -> Stock:
        found = self._stocks.get(request)
        if found is None:
            if len(self._stocks) >= MAX_STOCKS:
                self._stocks.popitem(last=False)
            found = self._stocks[request] = Stock(request, self._memo)
            for volume in self._volumes.values():
                found.put(volume)
        else:
            self._stocks.move_to_end(request)
        return found

    def reserved_for(self, claim: PersistentVolumeClaim, request: VolumeRequest) -> list[PersistentVolume]:
        named = self._reserved.get(claim.key, {})
        return [
            volume
            for _, volume in sorted(named.items())
            if is_reserved_for(volume, claim) and request.is_met_by_reserved(volume)
        ]


class VolumeIndex:
    """The volumes of those StorageClasses for which a claim has been placed, updated as volumes change."""

    def __init__(self, volumes: Volumes, memo: AccessibleNodesMemo) -> None:
        self._volumes = volumes
        self._memo = memo
        self._volume_index: dict[str, ClassVolumes] = {}  # class -> its volumes
        self._class_of: dict[str, str] = {}  # volume -> the class under which it is indexed
        self._changed: set[str] = set()  # volumes to be read again
        volumes.watch_volumes(self._on_change)

    def _on_change(self, name: str) -> None:
        if not self._volume_index:
            return
        self._changed.add(name)
        if len(self._changed) > MAX_KEPT:  # nobody asks any more
            self._volume_index.clear()
            self._class_of.clear()
            self._changed.clear()

    def of(self, class_name: str) -> ClassVolumes:
        """Return the volumes of a StorageClass; use them within the current scheduling cycle only."""
        self._catch_up()
        class_volumes = self._volume_index.get(class_name)
        if class_volumes is None:
            class_volumes = self._volume_index[class_name] = ClassVolumes(self._memo)
            for volume in self._volumes.volumes_of_class(class_name):
                self._put(class_volumes, class_name, volume)
        return class_volumes

    def _catch_up(self) -> None:
        for name in self._changed:
            old_class = self._class_of.pop(name, None)
            if old_class is not None:
                self._volume_index[old_class].take(name)
            volume = self._volumes.volume(name)
            class_name = "" if volume is None else class_of(volume)
            class_volumes = self._volume_index.get(class_name)
            if volume is not None and class_volumes is not None:
                self._put(class_volumes, class_name, volume)
        self._changed.clear()

    def _put(self, class_volumes: ClassVolumes, class_name: str, volume: PersistentVolume) -> None:
        self._class_of[volume.metadata.name] = class_name
        class_volumes.put(volume)


class Choice:
    """The existing volumes that one claim can get. Raises DecodeError for a claim whose request cannot be read."""

    def __init__(self, claim: PersistentVolumeClaim, volume_index: VolumeIndex, memo: AccessibleNodesMemo) -> None:
        self.claim = claim
        request = request_of(claim)
        class_volumes = volume_index.of(class_of(claim))
        self._stock = class_volumes.stock(request)
        self._reserved = [(volume, memo.of(volume)) for volume in class_volumes.reserved_for(claim, request)]

    @property
    def is_empty(self) -> bool:
        return not (self._reserved or self._stock.anywhere or self._stock.by_host)

    @property
    def hosts(self) -> frozenset[str] | None:
        """Return the hostnames of the nodes for which the choice may differ; None if it may differ for any hostname."""
        found: set[str] = set(self._stock.by_host)
        for accessible in (*(accessible for _, accessible in self._reserved), *self._stock.anywhere):
            if accessible.hosts is not None:
                found |= accessible.hosts
            elif accessible.reads_hostname:
                return None
        return frozenset(found)

    @property
    def sure_hosts(self) -> Collection[str]:
        """Return hostnames of nodes for which there certainly is a volume."""
        return () if self._reserved else self._stock.sure_hosts

    @property
    def sizes_by_host(self) -> Mapping[str, int] | None:
        """Return hostname -> size, in thousandths of a byte, of the best volume of a node with that name.

        None if the best volume depends on more than the hostname.
        """
        by_host = self._stock.by_host
        if self._reserved or self._stock.anywhere or len(by_host) != len(self._stock.sure_hosts):
            return None
        sizes: dict[str, int] = {}
        for host, groups in by_host.items():
            if len(groups) != 1:
                return None
            for accessible, candidates in groups.items():
                if not accessible.is_of_hosts:
                    return None
                sizes[host] = candidates[0].size
        return sizes

    def best(self, labels: Labels, taken: Collection[str]) -> PersistentVolume | None:
        """Return the best volume for a node with these labels, except those in `taken`; None if there is none."""
        for volume, accessible in self._reserved:
            if volume.metadata.name not in taken:
                # If this node cannot access the reserved volume, no other volume may stand in for it.
                return volume if accessible.matches(labels) else None
        return self._stock.best(labels, taken)
