"""Applies each informer event about the objects of gangs to the registry and the queue.

An invalid object is logged, and its gang is parked with the reason until the object is mended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from kscheduler.api.objects import NamespacedObject
from kscheduler.api.pod_groups import TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED, PodGroup
from kscheduler.clock import Clock
from kscheduler.errors import DecodeError
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.gangs.doors import COMPOSITE_DOOR, KUBERNETES_DOOR, Door
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.scheduling_queue import SchedulingQueue

log = logging.getLogger(__name__)

PLURALS = {COMPOSITE_DOOR.api: "compositepodgroups"}  # of objects that are no podgroups
_RESOURCES: dict[str, EventResource] = {
    KUBERNETES_DOOR.api: EventResource.POD_GROUP,
    COMPOSITE_DOOR.api: EventResource.COMPOSITE_POD_GROUP,
}
COSCHEDULING_RESOURCE = "podgroups.v1alpha1.scheduling.x-k8s.io"  # as Coscheduling registers its objects' events


def _asked(group: NamespacedObject) -> tuple[str | None, str | None]:
    """Return the annotations of a group that are part of what it asks for."""
    annotations = group.metadata.annotations or {}
    return annotations.get(TOPOLOGY_REQUIRED), annotations.get(TOPOLOGY_PREFERRED)


class Statuses(Protocol):
    """Who writes the status of the objects of a door."""

    def seen(self, group: Any) -> None:
        """Take a new or changed object."""
        ...

    def gone(self, group: Any) -> None: ...


class GroupEvents:
    """The handler of one door's objects. `reconsider` lets the queue look at a gang again, at a moment."""

    def __init__(
        self,
        door: Door,
        registry: Registry,
        queue: SchedulingQueue,
        reconsider: Callable[[GangKey, float], None],
        *,
        clock: Clock,
        measurements: Measurements,
        wake: Callable[[], None],
        statuses: Statuses | None = None,
        pod_groups: dict[str, PodGroup] | None = None,
    ) -> None:
        """`pod_groups`: a dictionary in which the objects are to be kept by namespace/name, None for nowhere."""
        self._door = door
        self._registry = registry
        self._queue = queue
        self._reconsider = reconsider
        self._clock = clock
        self._measure = measurements
        self._wake = wake
        self._statuses = statuses
        self._pod_groups = pod_groups
        resource = _RESOURCES.get(door.api, COSCHEDULING_RESOURCE)
        self._added = ClusterEvent(resource, Action.ADD)
        self._updated = ClusterEvent(resource, Action.UPDATE)
        self._deleted = ClusterEvent(resource, Action.DELETE)

    def on_add(self, group: Any) -> None:
        self._note(group)
        self._set(group)
        self._report(group, self._added, None, group)

    def on_update(self, old: Any, new: Any) -> None:
        if self._statuses is not None and old.metadata.uid != new.metadata.uid:
            self._statuses.gone(old)
        self._note(new)
        if old.spec == new.spec and old.metadata.uid == new.metadata.uid and _asked(old) == _asked(new):
            return  # its status
        self._set(new)
        self._report(new, self._updated, old, new)

    def _note(self, group: Any) -> None:
        if self._pod_groups is not None:
            self._pod_groups[group.key] = group
        if self._statuses is not None:
            self._statuses.seen(group)

    def on_delete(self, group: Any) -> None:
        if self._pod_groups is not None:
            self._pod_groups.pop(group.key, None)
        if self._statuses is not None:
            self._statuses.gone(group)
        self._registry.remove_gang(self._key_of(group))
        self._report(group, self._deleted, group, None)

    def _set(self, group: NamespacedObject) -> None:
        try:
            gang = self._door.gang_of(group)
        except DecodeError as error:
            log.error("the object of a gang is invalid", extra={"group": group.key, "err": str(error)})
            self._measure.bad_object(PLURALS.get(self._door.api, "podgroups"))
            self._registry.refuse_gang(self._key_of(group), str(error))
            return
        self._registry.set_gang(gang)

    def _key_of(self, group: NamespacedObject) -> GangKey:
        return GangKey(self._door.api, group.metadata.namespace, group.metadata.name)

    def _report(self, group: NamespacedObject, event: ClusterEvent, old: object, new: object) -> None:
        """Let the queue look at the gang, and at pods that plugins hold back because of its object."""
        now = self._clock.now()
        self._reconsider(self._key_of(group), now)
        self._queue.move_all_to_active_or_backoff(event, old, new, now)
        if self._queue.uids:
            self._wake()
