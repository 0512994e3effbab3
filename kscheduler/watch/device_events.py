"""Applies each informer event about dynamic resource allocation to `Devices` and the queue.

As in kube-scheduler, the events of claims are those of what the scheduler believes: an assumed claim is an update, and
its later report by the watch is none. Slices are those with the taints of DeviceTaintRules, so that a rule's change is
an update of slices. A new version of a slice or class that is equal in all decoded fields requeues no pod.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from kscheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kscheduler.cel.selectors import load as load_compiler
from kscheduler.client.informer import Handler
from kscheduler.client.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kscheduler.clock import Clock
from kscheduler.config.releases import Release
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.devices import Devices, SliceChange
from kscheduler.watch.volume_events import has_equal_content


class DeviceEvents:
    """The handlers of all kinds that dynamic resource allocation reads.

    `wake` is called when there may be a pod to schedule.
    """

    def __init__(self, devices: Devices, queue: SchedulingQueue, *, clock: Clock, wake: Callable[[], None]) -> None:
        self._devices = devices
        self._queue = queue
        self._clock = clock
        self._wake = wake
        devices.watch_claims(functools.partial(self.requeue, EventResource.RESOURCE_CLAIM))

    def handlers(self, release: Release) -> Iterator[tuple[Resource[Any], Handler[Any], str]]:
        """Yield each kind that the release watches, its handler, and the first half of its events' names in metrics."""
        if not release.has("DynamicResourceAllocation"):
            return
        yield DEVICE_CLASSES, _ClassEvents(self._devices, self.requeue), EventResource.DEVICE_CLASS.value
        if release.has("DRADeviceTaintRules"):
            kind: Resource[Any] = replace(DEVICE_TAINT_RULES, group_version=release.taint_rules_api)
            yield kind, _TaintRuleEvents(self._devices, self._requeue_slices), "resource.k8s.io/DeviceTaintRule"
        yield RESOURCE_SLICES, _SliceEvents(self._devices, self._requeue_slices), EventResource.RESOURCE_SLICE.value
        yield RESOURCE_CLAIMS, _ClaimEvents(self._devices), EventResource.RESOURCE_CLAIM.value

    def requeue(self, resource: EventResource, before: object, after: object) -> None:
        """Requeue the pods that a change may help; `before` is None for a new object, `after` for a deleted one."""
        action = Action.ADD if before is None else Action.DELETE if after is None else Action.UPDATE
        event = _event(resource, action)
        woken = self._queue.move_all_to_active_or_backoff(event, before, after, self._clock.now())
        if woken or self._queue.is_waking:
            self._wake()

    def _requeue_slices(self, changes: Iterable[SliceChange]) -> None:
        for before, after in changes:
            if before is not None and after is not None and has_equal_content(before, after):
                continue
            if before is not None or after is not None:
                self.requeue(EventResource.RESOURCE_SLICE, before, after)


@functools.cache
def _event(resource: EventResource, action: Action) -> ClusterEvent:
    """Return one object for all events of a kind: the queue remembers of each object who registered for it."""
    return ClusterEvent(resource, action)


class _ClaimEvents:
    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self.on_add = devices.set_claim

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        self._devices.set_claim(new)

    def on_delete(self, claim: ResourceClaim) -> None:
        self._devices.remove_claim(claim.metadata.namespace, claim.metadata.name)


class _SliceEvents:
    def __init__(self, devices: Devices, requeue: Callable[[Iterable[SliceChange]], None]) -> None:
        self._devices = devices
        self._requeue = requeue

    def on_add(self, each: ResourceSlice) -> None:
        self._requeue((self._devices.set_slice(each),))

    def on_update(self, old: ResourceSlice, new: ResourceSlice) -> None:
        self._requeue((self._devices.set_slice(new),))

    def on_delete(self, each: ResourceSlice) -> None:
        self._requeue((self._devices.remove_slice(each.metadata.name),))


class _TaintRuleEvents:
    def __init__(self, devices: Devices, requeue: Callable[[Iterable[SliceChange]], None]) -> None:
        self._devices = devices
        self._requeue = requeue

    def on_add(self, rule: DeviceTaintRule) -> None:
        self._requeue(self._devices.set_taint_rule(rule))

    def on_update(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        self._requeue(self._devices.set_taint_rule(new))

    def on_delete(self, rule: DeviceTaintRule) -> None:
        self._requeue(self._devices.remove_taint_rule(rule.metadata.name))


class _ClassEvents:
    def __init__(self, devices: Devices, requeue: Callable[[EventResource, object, object], None]) -> None:
        self._devices = devices
        self._requeue = requeue

    def on_add(self, each: DeviceClass) -> None:
        # Each request for devices names a DeviceClass, so none has a selector to compile before the first class. That
        # is mostly there when a scheduler starts; if not, tens of milliseconds are better lost here than in a decision.
        load_compiler()
        self._devices.set_class(each)
        self._requeue(EventResource.DEVICE_CLASS, None, each)

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        self._devices.set_class(new)
        if not has_equal_content(old, new):
            self._requeue(EventResource.DEVICE_CLASS, old, new)

    def on_delete(self, each: DeviceClass) -> None:
        self._devices.remove_class(each.metadata.name)
        self._requeue(EventResource.DEVICE_CLASS, each, None)
