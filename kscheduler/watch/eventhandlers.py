"""Applies each informer event to the cache and the queue.

A pod with a node belongs to the cache. A pod without one whose schedulerName is one of our profiles belongs to the
queue, and to the nominations if its status names a node. A pod of another scheduler belongs to none of these until it
is bound. The handlers here make every transition between these, in whatever order deletes, updates and bindings by
other schedulers arrive. An unreadable object is logged with its key and left out; its earlier version, which is out of
date, is dropped.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Mapping
from typing import Generic, TypeVar

from msgspec import structs

from kscheduler.api.documents import NodeDocument
from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import (
    LabelSelector,
    Node,
    Pod,
    ReplicationController,
    Workload,
)
from kscheduler.cache.cache import Cache
from kscheduler.client.informer import Handler
from kscheduler.clock import Clock
from kscheduler.cycle.waiting_pods import WaitingPod
from kscheduler.errors import DecodeError
from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    node_events,
    pod_events,
    waiting_pod_label,
)
from kscheduler.framework.nominations import Nominations
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import Pool
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.owners import Owners
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.watch.past_bindings import PastBindings

log = logging.getLogger(__name__)


_NOBODY: Mapping[str, WaitingPod] = {}


class PodEvents:
    """Handles pods, and reports how long each event took, under kube-scheduler's names for them.

    `on_gone(uid)` is called for deleted and bound pods, which need no PodScheduled condition.
    """

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        profiles: Container[str],
        nominations: Nominations,
        *,
        clock: Clock,
        measurements: Measurements,
        wake: Callable[[], None],
        on_gone: Callable[[str], None],
        waiting: Mapping[str, WaitingPod] = _NOBODY,
        past_bindings: PastBindings | None,
        stopwatch: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._cached = cache.uids()
        self._queue = queue
        self._profiles = profiles  # scheduler names that are ours
        self._nominations = nominations
        self._clock = clock
        self._measure = measurements
        self._wake = wake
        self._on_gone = on_gone
        self._waiting = waiting  # pod uid -> its wait for Permit plugins
        self._past_bindings = past_bindings
        self._stopwatch = stopwatch
        self._durations = measurements.event_durations
        self._release = release = queue.release
        self._sums_resizes_apart = release.sums_resizes_apart
        self._counts_claims = release.counts_node_resources
        self._pending_added = waiting_pod_label(Action.ADD, release)
        self._pending_updated = waiting_pod_label(Action.UPDATE, release)
        self._pending_deleted = waiting_pod_label(Action.DELETE, release)

    def on_add(self, pod: Pod) -> None:
        started = self._stopwatch()
        if pod.spec.node_name:
            event = "AssignedPodAdd"
            if self._past_bindings is not None and self._is_ours(pod):
                self._past_bindings.found(pod)
            self._bound(pod, was_bound=None)
        else:
            event = self._pending_added
            if pod.spec.scheduler_name in self._profiles:
                self._pending(pod)
        self._durations[event,].observe(self._stopwatch() - started)

    def on_update(self, old: Pod, new: Pod) -> None:
        started = self._stopwatch()
        event = "AssignedPodUpdate" if new.spec.node_name else self._pending_updated
        became_bound = new.spec.node_name and not old.spec.node_name
        if old.metadata.uid != new.metadata.uid:  # deleted and created again between two events
            self.on_delete(old)
            self.on_add(new)
        elif not new.spec.node_name:
            if new.spec.scheduler_name in self._profiles:
                self._still_pending(old, new)
        elif old.spec.node_name:
            self._bound(new, was_bound=old)
        elif self._cache.confirm(new):
            self._confirmed(new)
        else:
            past = self._past_bindings
            if past is not None and past.is_open and self._is_ours(new):
                promised = self._cache.get(new.metadata.uid)
                past.seen(new, assumed_on="" if promised is None else promised.node_name)
            if self._cache.confirm_unanswered(new):
                self._queue.drop_bound(new.metadata.uid)
                self._on_gone(new.metadata.uid)
                self._confirmed(new)
            else:
                self._bound(new, was_bound=None)
        seconds = self._stopwatch() - started
        if (
            became_bound
        ):  # as in kube-scheduler, where it leaves the informer of one kind and comes to that of the other
            event = "AssignedPodAdd"
            self._durations[self._pending_deleted,].observe(seconds)
        self._durations[event,].observe(seconds)

    def on_delete(self, pod: Pod) -> None:
        started = self._stopwatch()
        uid = pod.metadata.uid
        if self._past_bindings is not None and self._past_bindings.is_open:
            self._past_bindings.forget(uid)
        self._leave_queue(uid)
        # A bound pod that is not in the cache could not be read. kube-scheduler requeues pods for each that goes.
        if self._cache.remove_pod(uid) is not None or pod.spec.node_name:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None, self._clock.now())
        elif pod.status.nominated_node_name and self._is_ours(pod):
            self._free_nominated_room(pod)
        if self._queue.uids:
            self._wake()
        event = "AssignedPodDelete" if pod.spec.node_name else self._pending_deleted
        self._durations[event,].observe(self._stopwatch() - started)

    def _leave_queue(self, uid: str) -> None:
        self._queue.delete(uid)
        if uid in self._nominations.by_pod:
            self._nominations.remove(uid)
        if uid in self._waiting:  # what Reserve plugins keep for it is given back now, and not when its time is over
            self._waiting[uid].reject("", "removed")
        self._on_gone(uid)

    def _free_nominated_room(self, pod: Pod) -> None:
        """Requeue pods of no higher priority than this pod, which no longer needs room on its nominated node."""
        self._queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, pod, None, self._clock.now(), up_to_priority=pod.spec.priority or 0
        )

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _bound(self, pod: Pod, was_bound: Pod | None) -> None:
        """Handle a pod with a node: our own confirmed binding, another scheduler's pod, or a static pod."""
        try:
            info = PodInfo(pod, self._sums_resizes_apart, self._counts_claims)
        except DecodeError as error:
            self._unreadable_while_bound(pod, error)
            return
        now = self._clock.now()
        promised = self._cache.get(info.uid)
        self._cache.set_pod(info)
        if was_bound is None or promised is None:  # one that had a node, but could not be read, comes now
            self._leave_queue(info.uid)
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod, now)
            if promised is not None and promised.node_name != pod.spec.node_name:
                # Another scheduler was faster: the room assumed for the pod is free, as if it had been deleted there.
                self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, promised.pod.pod, None, now)
        else:
            known = promised.pod.pod  # not `was_bound`, which may be a version that could not be read
            for event in pod_events(known, pod, self._release):
                self._queue.move_all_to_active_or_backoff(event, known, pod, now)
        if self._queue.uids:  # else nobody's turn can have come
            self._wake()

    def _confirmed(self, pod: Pod) -> None:
        """Handle the confirmation of our own binding: its pod has left the queue when it was popped.

        If the binding was answered, the end of the pod's cycle has forgotten what was kept of its status.
        """
        uid, queue = pod.metadata.uid, self._queue
        if uid in self._nominations.by_pod:
            self._nominations.remove(uid)
        if queue.uids or queue.in_flight_uids:  # else nobody waits for anything
            queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod, self._clock.now())
        if queue.uids:
            self._wake()

    def _pending(self, pod: Pod) -> None:
        try:
            info = PodInfo(pod, self._sums_resizes_apart)
        except DecodeError as error:
            self._leave_out(pod, error)
            return
        uid = info.uid
        if uid not in self._cached or not self._is_bound_unseen(uid):
            self._queue.add(info, self._clock.now())
            if pod.status.nominated_node_name or uid in self._nominations.by_pod:
                queued = self._queue.get(uid)
                pool = Pool.GONE if queued is None else queued.pool
                if pool is Pool.ACTIVE or (pool is Pool.GATED and self._release.nominates_gated):
                    self._nominations.nominate(info, None)
            self._wake()

    def _still_pending(self, old: Pod, new: Pod) -> None:
        """Handle an update of an unbound pod; for a pod in flight it counts only if the pod returns to the queue."""
        try:
            info = PodInfo(new, self._sums_resizes_apart)
        except DecodeError as error:
            self._leave_out(new, error)
            return
        uid = info.uid
        is_in_flight = self._queue.is_in_flight(uid)
        if is_in_flight or uid not in self._cached or not self._cache.is_assumed(uid):  # else it is bound unseen
            self._queue.update(old, info, self._clock.now())
            nominated = old.status.nominated_node_name
            # If it is in flight, the end of its cycle sets its nomination.
            if not is_in_flight and (nominated or new.status.nominated_node_name or uid in self._nominations.by_pod):
                self._nominations.update(old, info)
            frees = bool(nominated) and nominated != new.status.nominated_node_name
            if frees and not self._cache.is_assumed(uid):
                self._free_nominated_room(old)
            elif is_in_flight:
                return  # its own nomination is shown, above all: nobody waits for that
            self._wake()

    def _is_bound_unseen(self, uid: str) -> bool:
        """Return True if the pod's binding is written, but the watch has not reported it yet."""
        return self._cache.is_assumed(uid) and not self._queue.is_in_flight(uid)

    def _leave_out(self, pod: Pod, error: DecodeError) -> None:
        """Drop a pod that cannot be read, and its earlier version, which is out of date."""
        log.error("pod cannot be read and is left out", extra={"pod": pod.key, "err": str(error)})
        self._measure.bad_object("pods")
        self._queue.delete(pod.metadata.uid)
        self._nominations.remove(pod.metadata.uid)
        dropped = self._cache.remove_pod(pod.metadata.uid)
        if dropped is not None:  # its room is given to others, as if it had been deleted
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, dropped.pod, None, self._clock.now())
            self._wake()

    def _unreadable_while_bound(self, pod: Pod, error: DecodeError) -> None:
        """Keep the earlier version of a pod on this node, since the pod still takes room there; else leave it out."""
        known = self._cache.get(pod.metadata.uid)
        if known is None or known.node_name != pod.spec.node_name:
            self._leave_out(pod, error)
            return
        log.error(
            "change of a bound pod cannot be read: it counts as before", extra={"pod": pod.key, "err": str(error)}
        )
        self._measure.bad_object("pods")


class NodeDocuments:
    """Keeps complete Node objects for extenders and wasm plugins; cache and queue do not read them."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeDocument] = {}  # by name
        self._on_change: Callable[[str], None] | None = None

    def call_on_change(self, on_change: Callable[[str], None]) -> None:
        """Register `on_change`, called with the name of each node that is added or changed from now on."""
        self._on_change = on_change

    def on_add(self, node: NodeDocument) -> None:
        self.nodes[node.metadata.name] = node
        if self._on_change is not None:
            self._on_change(node.metadata.name)

    def on_update(self, old: NodeDocument, new: NodeDocument) -> None:
        self.nodes[new.metadata.name] = new
        if self._on_change is not None and _says_more(old, new):
            self._on_change(new.metadata.name)

    def on_delete(self, node: NodeDocument) -> None:
        self.nodes.pop(node.metadata.name, None)


_HEARTBEAT = re.compile(rb'"lastHeartbeatTime":"[^"]*"')


def _says_more(old: NodeDocument, new: NodeDocument) -> bool:
    """Return True if two versions of a node differ in more than heartbeat times and the resource version."""
    before = structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return (
        before != new.metadata
        or bytes(old.spec) != bytes(new.spec)
        or _HEARTBEAT.sub(b"", bytes(old.status)) != _HEARTBEAT.sub(b"", bytes(new.status))
    )


class NodeEvents:
    """Applies node events to the cache and the queue. `on_gone(name)` is called for deleted nodes."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        measurements: Measurements,
        wake: Callable[[], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._clock = clock
        self._measure = measurements
        self._wake = wake
        self._on_gone = on_gone

    def on_add(self, node: Node) -> None:
        if self._read(node):
            self._queue.move_all_to_active_or_backoff(NODE_ADD, None, node, self._clock.now())
            self._wake()

    def on_update(self, old: Node, new: Node) -> None:
        if self._cache.table.get(new.metadata.name) is None:  # the earlier version could not be read
            self.on_add(new)
            return
        change = NodeChange.between(old, new)
        if not self._read(new, change):
            return
        now = self._clock.now()
        for event in node_events(change):
            self._queue.move_all_to_active_or_backoff(event, old, new, now)
        self._wake()

    def on_delete(self, node: Node) -> None:
        self._cache.remove_node(node.metadata.name)  # it is not there if it could not be read
        self._on_gone(node.metadata.name)
        self._requeue_without(node)

    def _requeue_without(self, node: Node) -> None:
        self._queue.move_all_to_active_or_backoff(NODE_DELETE, node, None, self._clock.now())
        self._wake()

    def _read(self, node: Node, change: NodeChange | None = None) -> bool:
        try:
            self._cache.set_node(node, change)
        except DecodeError as error:
            log.error("node cannot be read and takes no pods", extra={"node": node.key, "err": str(error)})
            self._measure.bad_object("nodes")
            if self._cache.remove_node(node.metadata.name):
                self._requeue_without(node)
            return False
        return True


class ControllerEvents:
    """Handles events of one kind of controller (apiVersion, kind), whose selectors serve default topology spreading."""

    def __init__(self, owners: Owners, kind: tuple[str, str]) -> None:
        self._owners = owners
        self._kind = kind

    def on_add(self, controller: ReplicationController | Workload) -> None:
        selector = controller.spec.selector
        if not isinstance(selector, LabelSelector):
            selector = LabelSelector(match_labels=selector) if selector else None
        self._owners.set_controller(self._kind, controller.metadata.namespace, controller.metadata.name, selector)

    def on_update(self, old: ReplicationController | Workload, new: ReplicationController | Workload) -> None:
        if old.spec != new.spec:  # their status changes all the time
            self.on_add(new)

    def on_delete(self, controller: ReplicationController | Workload) -> None:
        self._owners.remove_controller(self._kind, controller.metadata.namespace, controller.metadata.name)


T = TypeVar("T")


class TimedEvents(Generic[T]):
    """Passes events to a handler and reports how long each took, under kube-scheduler's metric names for them."""

    def __init__(
        self, handler: Handler[T], name: str, *, stopwatch: Callable[[], float], measurements: Measurements
    ) -> None:
        """`name`: the first half of an event's name, such as Node; Add, Update or Delete is appended to it."""
        self._handler = handler
        self._name = name
        self._stopwatch = stopwatch
        self._durations = measurements.event_durations

    def on_add(self, obj: T) -> None:
        started = self._stopwatch()
        self._handler.on_add(obj)
        self._durations[f"{self._name}Add",].observe(self._stopwatch() - started)

    def on_update(self, old: T, new: T) -> None:
        started = self._stopwatch()
        self._handler.on_update(old, new)
        self._durations[f"{self._name}Update",].observe(self._stopwatch() - started)

    def on_delete(self, obj: T) -> None:
        started = self._stopwatch()
        self._handler.on_delete(obj)
        self._durations[f"{self._name}Delete",].observe(self._stopwatch() - started)
