"""Informer events about storage, and what `Volumes` and the queue make of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import LabelSelector, ObjectMeta, Pod, SelectorRequirement
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.observability.measurements import Measurements
from kscheduler.observability.metrics import Metrics
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.volumes import Volumes
from kscheduler.testing import make_pod
from kscheduler.watch.volume_events import StorageEvents, storage_kinds
from tests.support.clocks import ManualClock

RESOURCES = (
    EventResource.PERSISTENT_VOLUME,
    EventResource.PERSISTENT_VOLUME_CLAIM,
    EventResource.STORAGE_CLASS,
    EventResource.CSI_NODE,
    EventResource.CSI_DRIVER,
    EventResource.CSI_STORAGE_CAPACITY,
    EventResource.VOLUME_ATTACHMENT,
)


class Bench:
    """A pod that a plugin turned away, which asks to hear of everything about storage."""

    def __init__(self) -> None:
        self.clock = ManualClock(now=50.0)
        self.volumes = Volumes()
        self.metrics = Metrics()
        self.heard: list[tuple[object, object]] = []  # (old, new) of each event
        self.seen: PersistentVolume | None = None  # what was known of it while the plugin was asked last
        self.wakes = 0
        self.is_helpful = True  # what the plugin says of an event
        asked = [Registration(ClusterEvent(resource, Action.ALL), self._hint) for resource in RESOURCES]
        self.queue = SchedulingQueue(
            lambda queued: (queued.timestamp,), lambda pod: None, registered={ANY_PROFILE: {"Storage": asked}}
        )
        self.kinds = {kind.resource.type: kind for kind in storage_kinds(self.volumes)}
        self._handlers: dict[type, StorageEvents[Any]] = {}

    def handler(self, kind: type) -> StorageEvents[Any]:
        if kind not in self._handlers:
            self._handlers[kind] = StorageEvents(
                self.kinds[kind],
                self.queue,
                clock=self.clock,
                measurements=Measurements(self.metrics),
                wake=self._wake,
            )
        return self._handlers[kind]

    def _wake(self) -> None:
        self.wakes += 1

    def _hint(self, pod: Pod, old: object, new: object) -> bool:
        self.heard.append((old, new))
        self.seen = self.volumes.volume("x")
        return self.is_helpful

    def wait(self) -> None:
        """Let a pod be turned away."""
        if self.queue.counts().unschedulable:
            return
        number = len(self.queue)
        self.queue.add(PodInfo(make_pod(f"p{number}").obj()), self.clock.now())
        queued = self.queue.pop(self.clock.now())
        assert queued is not None
        self.queue.add_unschedulable_if_not_present(queued, self.clock.now(), {"Storage"})

    def add(self, item: Any) -> None:
        self.wait()
        self.handler(type(item)).on_add(item)

    def update(self, old: Any, new: Any) -> None:
        self.wait()
        self.handler(type(new)).on_update(old, new)

    def delete(self, item: Any) -> None:
        self.wait()
        self.handler(type(item)).on_delete(item)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def volume(version: str = "1", phase: str = "Available", size: str = "1Gi") -> PersistentVolume:
    metadata = ObjectMeta(name="x", resource_version=version)
    return PersistentVolume(metadata, PersistentVolumeSpec(capacity={"storage": size}), PersistentVolumeStatus(phase))


META = ObjectMeta(name="x", namespace="ns", resource_version="1")
# kind -> an object of it named ns/x or x, and how it is found
KINDS: dict[type, tuple[Any, Callable[[Volumes], object]]] = {
    PersistentVolume: (volume(), lambda volumes: volumes.volume("x")),
    PersistentVolumeClaim: (PersistentVolumeClaim(META), lambda volumes: volumes.claim("ns", "x")),
    StorageClass: (StorageClass(META), lambda volumes: volumes.storage_class("x")),
    CSINode: (CSINode(META), lambda volumes: volumes.csi_node("x")),
    CSIDriver: (CSIDriver(META), lambda volumes: volumes.csi_driver("x")),
    CSIStorageCapacity: (
        CSIStorageCapacity(META, storage_class_name="c"),
        lambda volumes: next(iter(volumes.capacities_of("c")), None),
    ),
    VolumeAttachment: (
        VolumeAttachment(META, VolumeAttachmentSpec("d", "n1")),
        lambda volumes: next(iter(volumes.attachments_of("n1")), None),
    ),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_kept_reported_and_dropped(bench: Bench, kind: type) -> None:
    item, find = KINDS[kind]
    changed = replace(item, metadata=replace(item.metadata, resource_version="2", labels={"a": "b"}))
    bench.add(item)
    assert find(bench.volumes) is item
    bench.update(item, changed)
    assert find(bench.volumes) is changed
    bench.delete(changed)
    assert find(bench.volumes) is None
    assert bench.heard == [(None, item), (item, changed), (changed, None)]
    assert bench.wakes == 3
    bench.queue.check()


def test_all_kinds_that_plugins_can_ask_for_are_watched(bench: Bench) -> None:
    assert {kind.event_resource for kind in bench.kinds.values()} == set(RESOURCES)
    assert set(bench.kinds) == set(KINDS)


def test_an_event_is_timed_under_the_name_of_its_resource(bench: Bench) -> None:
    assert bench.handler(CSINode).name == "storage.k8s.io/CSINode"


def test_a_version_that_reads_equal_is_kept_but_wakes_nobody(bench: Bench) -> None:
    bench.add(volume("1"))
    again = volume("2")
    bench.update(volume("1"), again)
    assert bench.volumes.volume("x") is again
    assert len(bench.heard) == 1


def test_an_event_that_helps_no_pod_does_not_wake_the_scheduler(bench: Bench) -> None:
    bench.is_helpful = False
    bench.add(volume())
    assert bench.heard == [(None, volume())]
    assert bench.wakes == 0


def test_an_object_that_cannot_be_read_is_logged_and_left_out(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        bench.add(volume(size="much"))
    assert bench.volumes.volume("x") is None
    (record,) = caplog.records
    assert record.kind == "PersistentVolume"  # type: ignore[attr-defined]
    assert record.object == "x"  # type: ignore[attr-defined]
    assert "spec.capacity[storage]" in record.err  # type: ignore[attr-defined]
    assert bench.metrics.informer_bad_objects_total.labels("persistentvolumes").value == 1
    assert not bench.heard


def test_what_was_known_goes_when_it_cannot_be_read_any_more(bench: Bench) -> None:
    bench.add(volume())
    bench.update(volume(), volume("2", size="much"))
    assert bench.volumes.volume("x") is None
    bench.update(volume("2", size="much"), volume("3"))
    assert bench.volumes.volume("x") == volume("3")
    assert bench.heard == [(None, volume()), (None, volume("3"))]  # back, as if it were new


def test_an_unreadable_object_goes_without_a_word(bench: Bench) -> None:
    bench.add(volume(size="much"))
    bench.delete(volume(size="much"))
    assert not bench.heard


@pytest.mark.parametrize(
    "item",
    [
        CSIStorageCapacity(META, capacity="much"),
        CSIStorageCapacity(META, LabelSelector(match_expressions=[SelectorRequirement("a", "Like")])),
    ],
    ids=["quantity", "selector"],
)
def test_unreadable_capacities_are_left_out(bench: Bench, item: CSIStorageCapacity) -> None:
    bench.add(item)
    assert not list(bench.volumes.capacities_of(""))


def test_a_report_ends_an_assumption_before_pods_are_asked(bench: Bench) -> None:
    bench.add(volume("1"))
    bench.volumes.assume_volume(volume("1", phase="ours"))
    bench.update(volume("1"), volume("2", phase="Bound"))
    assert bench.heard[-1] == (volume("1"), volume("2", phase="Bound"))
    assert bench.seen == volume("2", phase="Bound")
