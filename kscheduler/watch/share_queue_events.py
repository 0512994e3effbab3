"""Applies what the watch shows of Queue objects, nodes and waiting pods to the queues with shares.

Every change of a Queue requeues the pods that the plugin Queues rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Generic, TypeVar

from kscheduler.api.objects import Node, Pod
from kscheduler.api.share_queues import ShareQueueObject
from kscheduler.client.informer import Handler
from kscheduler.client.kinds import KAI_QUEUES, NODES, PODS, SHARE_QUEUES, Resource
from kscheduler.clock import Clock
from kscheduler.framework import events
from kscheduler.framework.events import Action, ClusterEvent
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.quotas.share_queues import ShareQueues

T = TypeVar("T")
Around = Callable[[Resource[Any], Handler[Any]], Handler[Any]]

_ADDED, _CHANGED, _DELETED = (
    ClusterEvent(events.SHARE_QUEUES, action) for action in (Action.ADD, Action.UPDATE, Action.DELETE)
)


class ShareQueueWatch:
    """Keeps queues with shares up to date with the watch. `profiles`: scheduler names of those that share by queues."""

    def __init__(self, queues: ShareQueues, profiles: Container[str]) -> None:
        self._queues = queues
        self._profiles = profiles

    def informers(
        self, queue: SchedulingQueue, *, clock: Clock, wake: Callable[[], None]
    ) -> list[tuple[Resource[Any], Handler[Any]]]:
        """Return the kinds of Queue objects, each with its handler. `wake` is called when a pod may be scheduled."""
        return [
            (kind, QueueEvents(kind, self._queues, queue, clock=clock, wake=wake))
            for kind in (SHARE_QUEUES, KAI_QUEUES)
        ]

    def around(self, events: Around) -> Around:
        """Return what makes the handlers of informers: as `events` makes them, and nodes and pods are counted."""

        def handler_of(resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
            made = events(resource, handler)
            if resource.plural == PODS.plural:
                return _FollowingPods(made, self._queues, self._profiles)
            if resource.plural == NODES.plural and resource.type is NODES.type:
                return _Following(made, self._queues.set_node, self._node_is_gone)
            return made

        return handler_of

    def _node_is_gone(self, node: Node) -> None:
        self._queues.remove_node(node.metadata.name)


class _Following(Generic[T]):
    """Calls a handler, and before that what follows each object."""

    def __init__(self, handler: Handler[T], is_there: Callable[[T], None], is_gone: Callable[[T], None]) -> None:
        self._handler = handler
        self._is_there = is_there
        self._is_gone = is_gone

    def on_add(self, item: T) -> None:
        self._is_there(item)
        self._handler.on_add(item)

    def on_update(self, old: T, new: T) -> None:
        self._is_there(new)
        self._handler.on_update(old, new)

    def on_delete(self, item: T) -> None:
        self._is_gone(item)
        self._handler.on_delete(item)


class _FollowingPods:
    """Calls a handler, and before that counts pods that wait. One that is gated, or goes, asks for nothing."""

    def __init__(self, handler: Handler[Pod], queues: ShareQueues, profiles: Container[str]) -> None:
        self._handler = handler
        self._queues = queues
        self._profiles = profiles

    def on_add(self, item: Pod) -> None:
        if self._asks(item):
            self._queues.pod_waits(item)
        else:
            self._queues.waits_no_more(item.metadata.uid)
        self._handler.on_add(item)

    def on_update(self, old: Pod, new: Pod) -> None:
        if not new.spec.node_name and self._asks(new):
            self._queues.pod_waits(new)
        elif not old.spec.node_name:  # one on a node has not waited
            self._queues.waits_no_more(new.metadata.uid)
        self._handler.on_update(old, new)

    def on_delete(self, item: Pod) -> None:
        self._queues.waits_no_more(item.metadata.uid)
        self._handler.on_delete(item)

    def _asks(self, pod: Pod) -> bool:
        spec = pod.spec
        return not (
            spec.node_name
            or spec.scheduling_gates
            or pod.metadata.deletion_timestamp is not None
            or spec.scheduler_name not in self._profiles
        )


class QueueEvents:
    """The handler of one kind of Queue objects."""

    def __init__(
        self,
        kind: Resource[Any],
        queues: ShareQueues,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._kind = kind
        self._queues = queues
        self._queue = queue
        self._clock = clock
        self._wake = wake

    def on_add(self, item: ShareQueueObject) -> None:
        self._queues.set(self._key(item), item)
        self._changed(_ADDED, None, item)

    def on_update(self, old: ShareQueueObject, new: ShareQueueObject) -> None:
        if old.spec != new.spec or old.metadata.uid != new.metadata.uid:
            self._queues.set(self._key(new), new)
            self._changed(_CHANGED, old, new)
        else:
            self._queues.refresh_object(self._key(new), new)

    def on_delete(self, item: ShareQueueObject) -> None:
        self._queues.remove(self._key(item))
        self._changed(_DELETED, item, None)

    def _key(self, item: ShareQueueObject) -> tuple[str, str]:
        return self._kind.group_version, item.metadata.name

    def _changed(self, event: ClusterEvent, old: ShareQueueObject | None, new: ShareQueueObject | None) -> None:
        self._queue.move_all_to_active_or_backoff(event, old, new, self._clock.now())
        if self._queue.uids:
            self._wake()
