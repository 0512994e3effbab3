"""Applies each informer event about storage to `Volumes` and the queue.

Only a change that scheduling reads requeues pods: a new version that is equal in all decoded fields requeues none. An
unreadable object is logged with its key and left out; its earlier version, which is out of date, is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from kscheduler.api.objects import APIObject
from kscheduler.api.storage import check_storage
from kscheduler.client.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from kscheduler.clock import Clock
from kscheduler.errors import DecodeError
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.volumes import Volumes

log = logging.getLogger(__name__)


T = TypeVar("T", bound=APIObject)


@dataclass(frozen=True, slots=True)
class StorageKind(Generic[T]):
    """One kind of storage object: its name in events, and the functions that store and remove such an object."""

    resource: Resource[T]
    event_resource: EventResource
    keep: Callable[[T], None]
    drop: Callable[[T], None]


def storage_kinds(volumes: Volumes) -> Iterator[StorageKind[Any]]:
    """Yield all kinds of storage objects that are watched."""
    yield StorageKind(
        STORAGE_CLASSES, EventResource.STORAGE_CLASS, volumes.set_storage_class, _by_name(volumes.remove_storage_class)
    )
    yield StorageKind(
        CSI_DRIVERS, EventResource.CSI_DRIVER, volumes.set_csi_driver, _by_name(volumes.remove_csi_driver)
    )
    yield StorageKind(CSI_NODES, EventResource.CSI_NODE, volumes.set_csi_node, _by_name(volumes.remove_csi_node))
    yield StorageKind(
        CSI_STORAGE_CAPACITIES,
        EventResource.CSI_STORAGE_CAPACITY,
        volumes.set_capacity,
        _by_key(volumes.remove_capacity),
    )
    yield StorageKind(
        VOLUME_ATTACHMENTS, EventResource.VOLUME_ATTACHMENT, volumes.set_attachment, _by_name(volumes.remove_attachment)
    )
    yield StorageKind(
        PERSISTENT_VOLUMES, EventResource.PERSISTENT_VOLUME, volumes.set_volume, _by_name(volumes.remove_volume)
    )
    yield StorageKind(
        PERSISTENT_VOLUME_CLAIMS,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        volumes.set_claim,
        _by_key(volumes.remove_claim),
    )


def _by_name(remove: Callable[[str], None]) -> Callable[[APIObject], None]:
    return lambda item: remove(item.metadata.name)


def _by_key(remove: Callable[[str, str], None]) -> Callable[[APIObject], None]:
    return lambda item: remove(item.metadata.namespace, item.metadata.name)


class StorageEvents(Generic[T]):
    """Applies the events of one kind of storage object to `Volumes` and the queue."""

    def __init__(
        self,
        kind: StorageKind[T],
        queue: SchedulingQueue,
        *,
        clock: Clock,
        measurements: Measurements,
        wake: Callable[[], None],
    ) -> None:
        self._kind = kind
        self._queue = queue
        self._clock = clock
        self._measure = measurements
        self._wake = wake
        self._known: set[str] = set()  # keys of the objects that could be read
        self._added = ClusterEvent(kind.event_resource, Action.ADD)
        self._updated = ClusterEvent(kind.event_resource, Action.UPDATE)
        self._deleted = ClusterEvent(kind.event_resource, Action.DELETE)

    def on_add(self, item: T) -> None:
        if self._keep(item):
            self._requeue(self._added, None, item)

    def on_update(self, old: T, new: T) -> None:
        was_known = old.key in self._known
        if not self._keep(new):
            return
        if not was_known:
            self._requeue(self._added, None, new)
        elif not has_equal_content(old, new):
            self._requeue(self._updated, old, new)

    def on_delete(self, item: T) -> None:
        if item.key in self._known:
            self._drop(item)
            self._requeue(self._deleted, item, None)

    @property
    def name(self) -> str:
        """The first half of an event's name for metrics, such as storage.k8s.io/CSINode."""
        return self._kind.event_resource.value

    def _requeue(self, event: ClusterEvent, old: T | None, new: T | None) -> None:
        woken = self._queue.move_all_to_active_or_backoff(event, old, new, self._clock.now())
        if woken or self._queue.is_waking:
            self._wake()

    def _keep(self, item: T) -> bool:
        try:
            check_storage(item)
        except DecodeError as error:
            resource = self._kind.resource
            log.error(
                "object cannot be read and is left out",
                extra={"kind": resource.kind, "object": item.key, "err": str(error)},
            )
            self._measure.bad_object(resource.plural)
            self._drop(item)
            return False
        self._known.add(item.key)
        self._kind.keep(item)
        return True

    def _drop(self, item: T) -> None:
        if item.key in self._known:
            self._known.discard(item.key)
            self._kind.drop(item)


def has_equal_content(old: APIObject, new: APIObject) -> bool:
    """Return True if two versions of an object differ in nothing but resourceVersion and generation."""
    return bool(_unversioned(old) == _unversioned(new))


def _unversioned(item: Any) -> Any:
    return replace(item, metadata=replace(item.metadata, resource_version="", generation=0))
