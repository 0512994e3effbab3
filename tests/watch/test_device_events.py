"""Informer events about devices, and what `Devices` and the queue make of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.devices import (
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
)
from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, RELEASES, Release
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.requeue import ANY_PROFILE
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from kscheduler.watch.device_events import DeviceEvents
from tests.devices.building import devices, make_class, make_slice
from tests.framework.plugins.dynamicresources.bench import allocation, claim
from tests.support.clocks import ManualClock

KINDS = (EventResource.RESOURCE_CLAIM, EventResource.RESOURCE_SLICE, EventResource.DEVICE_CLASS)


class Bench:
    """A pod that a plugin rejected; every event about devices is offered to its queueing hints."""

    def __init__(self, release: Release = RELEASE_1_37) -> None:
        clock = ManualClock(now=50.0)
        self.devices = Devices(release)
        self.heard: list[tuple[str, object, object]] = []  # (kind, old, new) of each event
        self.wakes = 0
        asked = [
            Registration(ClusterEvent(kind, Action.ALL), self._hint(kind.value.rpartition("/")[2])) for kind in KINDS
        ]
        self.queue = SchedulingQueue(
            lambda queued: (queued.timestamp,),
            lambda pod: None,
            registered={ANY_PROFILE: {"Devices": asked}},
            observer=Measurements(),
            clock=clock.now,
        )
        events = DeviceEvents(self.devices, self.queue, clock=clock, wake=self._wake)
        self.handlers: dict[str, Any] = {}
        self.versions: dict[str, str] = {}
        for resource, handler, _ in events.handlers(release):
            self.handlers[resource.kind] = handler
            self.versions[resource.kind] = resource.group_version
        self.queue.add(PodInfo(make_pod("p").uid("u").obj()), 0.0)
        popped = self.queue.pop(0.0)
        assert popped is not None
        self.queue.add_unschedulable_if_not_present(popped, 0.0, {"Devices"}, set())

    def _hint(self, kind: str) -> Any:
        def hint(waiting: Pod, old: object, new: object) -> bool:
            self.heard.append((kind, old, new))
            return False

        return hint

    def _wake(self) -> None:
        self.wakes += 1


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
def test_the_kinds_are_those_of_the_release(release: Release) -> None:
    kinds = set(Bench(release).handlers)
    assert kinds - {"DeviceTaintRule"} == {"ResourceClaim", "ResourceSlice", "DeviceClass"}
    assert ("DeviceTaintRule" in kinds) == (release.version != "1.36")
    assert not Bench(release.with_gates({"DynamicResourceAllocation": False})).handlers


def test_taint_rules_have_the_version_of_the_releases_api() -> None:
    gates = {"DRADeviceTaintRules": True}
    assert Bench(RELEASE_1_36.with_gates(gates)).versions["DeviceTaintRule"] == "resource.k8s.io/v1beta2"
    assert Bench(RELEASE_1_37).versions["DeviceTaintRule"] == "resource.k8s.io/v1"


def test_claims_are_heard_of_once_written_or_reported_whichever_comes_first() -> None:
    bench = Bench()
    handler = bench.handlers["ResourceClaim"]
    free, taken = claim("c"), claim("c", allocation=allocation())
    taken = replace(taken, metadata=replace(taken.metadata, resource_version="2"))
    handler.on_add(free)
    bench.devices.assume_claim(taken)
    handler.on_update(free, taken)
    handler.on_delete(taken)
    assert bench.heard == [
        ("ResourceClaim", None, free),
        ("ResourceClaim", free, taken),
        ("ResourceClaim", taken, None),
    ]
    assert bench.devices.claim("default", "c") is None


def test_a_slice_or_class_that_comes_again_unchanged_is_no_news() -> None:
    bench = Bench()
    for kind, made in (("ResourceSlice", make_slice("s", devices("g"))), ("DeviceClass", make_class())):
        handler = bench.handlers[kind]
        newer = replace(made, metadata=replace(made.metadata, resource_version="7", generation=3))
        handler.on_add(made)
        handler.on_update(made, newer)
        assert bench.heard == [(kind, None, made)]
        handler.on_delete(newer)
        assert bench.heard[1:] == [(kind, newer, None)]
        bench.heard.clear()
    assert not bench.devices.classes
    assert not len(bench.devices.slices)


def test_a_taint_rule_is_heard_of_as_a_change_of_the_slices_that_it_taints() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.handlers["ResourceSlice"].on_add(make_slice(name, devices("g"), pool=name))
    bench.heard.clear()
    handler = bench.handlers["DeviceTaintRule"]
    spec = DeviceTaintRuleSpec(DeviceTaintSelector(pool="a"), DeviceTaint("k", "", "NoSchedule"))
    rule = DeviceTaintRule(ObjectMeta(name="r"), spec)
    handler.on_add(rule)
    handler.on_update(rule, rule)
    handler.on_delete(rule)
    names = [(kind, old.metadata.name, bool(new.spec.devices[0].taints)) for kind, old, new in bench.heard]  # type: ignore[attr-defined]
    assert names == [("ResourceSlice", "a", True), ("ResourceSlice", "a", False)]
