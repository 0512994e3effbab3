"""The cluster's storage objects: volumes, claims, classes, drivers, capacities and attachments, with their indexes.

The event handlers of these kinds report them here. Volumes and claims may be *assumed*: between a decision and its
write the scheduler's own version counts. An assumed object has the resource version of the one that it changes; the
assumption ends with the first report of another version, or of the object's deletion, since the apiserver's is newer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    class_of,
)
from kscheduler.errors import InternalError


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


class _Versioned(_Keyed, Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_Keyed)
V = TypeVar("V", bound=_Versioned)

# Called with (kind, name): namespace/name for a claim; the node's name for a CSINode and an attachment.
Listener = Callable[[type, str], None]


class Volumes:
    def __init__(self) -> None:
        self._volumes: _Assumable[PersistentVolume] = _Assumable("persistent volume")
        self._claims: _Assumable[PersistentVolumeClaim] = _Assumable("claim")
        self._classes: dict[str, StorageClass] = {}  # name -> class
        self._csi_nodes: dict[str, CSINode] = {}  # node name -> its drivers
        self._csi_drivers: dict[str, CSIDriver] = {}  # name -> driver
        self._volumes_by_class: _Index[PersistentVolume] = _Index()
        self._capacities_by_class: _Index[CSIStorageCapacity] = _Index()
        self._attachments_by_node: _Index[VolumeAttachment] = _Index()
        self._listeners: list[Listener] = []
        self._volume_listeners: list[Callable[[str], None]] = []

    def watch(self, listener: Listener) -> None:
        """Register `listener`, called for each reported volume, claim, class, CSINode or attachment.

        Assumed versions are not reported.
        """
        self._listeners.append(listener)

    def _notify(self, kind: type, name: str) -> None:
        for listener in self._listeners:
            listener(kind, name)

    def watch_volumes(self, listener: Callable[[str], None]) -> None:
        """Register `listener`, called with the name of each volume that changes, or is assumed or restored."""
        self._volume_listeners.append(listener)

    def _notify_volume(self, name: str) -> None:
        for listener in self._volume_listeners:
            listener(name)

    # --- volumes ---

    def volume(self, name: str) -> PersistentVolume | None:
        """Return the assumed version of a volume, else the reported one; None if it is unknown."""
        return self._volumes.get(name)

    def reported_volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.reported.get(name)

    def volumes_of_class(self, class_name: str) -> Iterator[PersistentVolume]:
        """Return the volumes of a StorageClass ("": without one) in the order reported, with assumed changes."""
        latest = self._volumes.latest
        return (latest(volume) for volume in self._volumes_by_class.of(class_name))

    def set_volume(self, volume: PersistentVolume) -> None:
        self._volumes.set(volume)
        self._volumes_by_class.set(class_of(volume), volume)
        self._notify(PersistentVolume, volume.key)
        self._notify_volume(volume.key)

    def remove_volume(self, name: str) -> None:
        self._volumes.remove(name)
        self._volumes_by_class.remove(name)
        self._notify(PersistentVolume, name)
        self._notify_volume(name)

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Assume a changed volume. Raises InternalError unless its resource version is the one last reported."""
        self._volumes.assume(volume)
        self._notify_volume(volume.key)

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Drop the assumed version of a volume if its resource version is this one's; other versions stay assumed."""
        self._volumes.restore(volume)
        self._notify_volume(volume.key)

    # --- claims ---

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return the assumed version of a claim, else the reported one; None if it is unknown."""
        return self._claims.get(f"{namespace}/{name}")

    def reported_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.reported.get(f"{namespace}/{name}")

    def set_claim(self, claim: PersistentVolumeClaim) -> None:
        self._claims.set(claim)
        self._notify(PersistentVolumeClaim, claim.key)

    def remove_claim(self, namespace: str, name: str) -> None:
        self._claims.remove(f"{namespace}/{name}")
        self._notify(PersistentVolumeClaim, f"{namespace}/{name}")

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Assume a changed claim. Raises InternalError unless its resource version is the one last reported."""
        self._claims.assume(claim)

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Drop the assumed version of a claim if its resource version is this one's; other versions stay assumed."""
        self._claims.restore(claim)

    # --- classes and drivers ---

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def set_storage_class(self, storage_class: StorageClass) -> None:
        self._classes[storage_class.key] = storage_class
        self._notify(StorageClass, storage_class.key)

    def remove_storage_class(self, name: str) -> None:
        self._classes.pop(name, None)
        self._notify(StorageClass, name)

    def csi_node(self, node_name: str) -> CSINode | None:
        return self._csi_nodes.get(node_name)

    def set_csi_node(self, csi_node: CSINode) -> None:
        self._csi_nodes[csi_node.key] = csi_node
        self._notify(CSINode, csi_node.key)

    def remove_csi_node(self, node_name: str) -> None:
        self._csi_nodes.pop(node_name, None)
        self._notify(CSINode, node_name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self._csi_drivers.get(name)

    def set_csi_driver(self, driver: CSIDriver) -> None:
        self._csi_drivers[driver.key] = driver

    def remove_csi_driver(self, name: str) -> None:
        self._csi_drivers.pop(name, None)

    # --- capacities and attachments ---

    def capacities_of(self, class_name: str) -> Iterable[CSIStorageCapacity]:
        return self._capacities_by_class.of(class_name)

    def set_capacity(self, capacity: CSIStorageCapacity) -> None:
        self._capacities_by_class.set(capacity.storage_class_name, capacity)

    def remove_capacity(self, namespace: str, name: str) -> None:
        self._capacities_by_class.remove(f"{namespace}/{name}")

    def attachments_of(self, node_name: str) -> Iterable[VolumeAttachment]:
        return self._attachments_by_node.of(node_name)

    def set_attachment(self, attachment: VolumeAttachment) -> None:
        self._detach(attachment.key)
        self._attachments_by_node.set(attachment.spec.node_name, attachment)
        self._notify(VolumeAttachment, attachment.spec.node_name)

    def remove_attachment(self, name: str) -> None:
        self._detach(name)

    def _detach(self, name: str) -> None:
        node_name = self._attachments_by_node.value_of(name)
        if node_name is not None:
            self._attachments_by_node.remove(name)
            self._notify(VolumeAttachment, node_name)


class _Assumable(Generic[V]):
    """Objects of one kind as the watch reports them, and the assumed versions of some."""

    def __init__(self, noun: str) -> None:
        self._noun = noun  # for messages
        self.reported: dict[str, V] = {}  # key -> the reported version
        self._assumed: dict[str, V] = {}  # key -> assumed version; has the reported one's resource version

    def get(self, key: str) -> V | None:
        return self._assumed.get(key) or self.reported.get(key)

    def latest(self, item: V) -> V:
        return self._assumed.get(item.key, item)

    def set(self, item: V) -> None:
        key = item.key
        self.reported[key] = item
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.metadata.resource_version != item.metadata.resource_version:
            del self._assumed[key]  # an equal version again (a new list) ends no assumption

    def remove(self, key: str) -> None:
        self.reported.pop(key, None)
        self._assumed.pop(key, None)

    def assume(self, item: V) -> None:
        known = self.reported.get(item.key)
        wanted = item.metadata.resource_version
        if known is None:
            raise InternalError(f"{self._noun} {item.key}: expected one that is known, to assume version {wanted}")
        if known.metadata.resource_version != wanted:
            raise InternalError(
                f"{self._noun} {item.key} is out of sync: known in version {known.metadata.resource_version}, "
                f"to be assumed in version {wanted}"
            )
        self._assumed[item.key] = item

    def restore(self, item: V) -> None:
        assumed = self._assumed.get(item.key)
        if assumed is not None and assumed.metadata.resource_version == item.metadata.resource_version:
            del self._assumed[item.key]


class _Index(Generic[T]):
    """Objects indexed by one value each, such as their StorageClass or node."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, T]] = {}  # value -> key -> object
        self._values: dict[str, str] = {}  # key -> the value the object is indexed under

    def of(self, value: str) -> Iterable[T]:
        return self._items.get(value, {}).values()

    def value_of(self, key: str) -> str | None:
        return self._values.get(key)

    def set(self, value: str, item: T) -> None:
        key = item.key
        if self._values.get(key, value) != value:
            self.remove(key)
        self._values[key] = value
        self._items.setdefault(value, {})[key] = item

    def remove(self, key: str) -> None:
        value = self._values.pop(key, None)
        if value is None:
            return
        items = self._items[value]
        del items[key]
        if not items:
            del self._items[value]
