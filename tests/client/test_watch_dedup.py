"""Which events of a watch are left undecoded: none that changes what decisions read."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kscheduler.api.objects import APIStruct, Node, NodeStatus, Pod, PodCondition, PodStatus
from kscheduler.client.kinds import NAMESPACES, NODE_DOCUMENTS, NODES, POD_DOCUMENTS, PODS, Resource
from kscheduler.client.protocol import EventType, WatchEvent
from kscheduler.client.watch_dedup import _NodeStatus, _PodStatus
from kscheduler.client.wire import LineDecoder

Object = dict[str, Any]
Change = Callable[[Object], None]

KUBELETS = {"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"}


def pod() -> Object:
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "u1",
            "resourceVersion": "1",
            "labels": {"app": "web"},
            "managedFields": [{"time": "1"}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "False", "lastProbeTime": None},
            ],
            "containerStatuses": [
                {"name": "c", "restartCount": 1, "resources": {"requests": {"cpu": "1"}}, "state": {"running": {}}}
            ],
        },
    }


def node() -> Object:
    return {
        "metadata": {"name": "n1", "uid": "u2", "resourceVersion": "1", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "8"},
            "allocatable": {"cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}],
            "images": [{"names": ["a"], "sizeBytes": 1}],
        },
    }


class Watch:
    """One watch: `report` gives the event, or None if it was left undecoded."""

    def __init__(self, resource: Resource[Any]) -> None:
        self._decode: LineDecoder[Any] = LineDecoder(resource)
        self._version = 1

    def report(self, obj: Object, event_type: str = "MODIFIED") -> WatchEvent[Any] | None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        # Without spaces and the type first, as Go writes.
        raw = json.dumps({"type": event_type, "object": obj}, separators=(",", ":")).encode()
        event = self._decode(raw)
        assert event is not None
        assert (event.type, event.resource_version) == (EventType(event_type), str(self._version))
        return None if event.object is None else event

    def has_reported(self, obj: Object) -> Watch:
        """Both events after which repeats of this object are known."""
        assert self.report(obj) is not None
        assert self.report(obj) is not None
        return self


def set_in(*path: str | int, to: Any) -> Change:
    def change(obj: Object) -> None:
        inner: Any = obj
        for step in path[:-1]:
            inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
        inner[path[-1]] = to

    return change


NOTHING_NEW: list[tuple[Resource[Any], Change]] = [
    (PODS, set_in("metadata", "managedFields", to=[])),
    (PODS, set_in("status", "conditions", 1, "message", to="containers with unready status")),
    (PODS, set_in("status", "conditions", 1, "lastProbeTime", to="2026-01-02T00:00:00Z")),
    (PODS, set_in("status", "conditions", 1, "lastTransitionTime", to="2026-01-02T00:00:00Z")),
    (PODS, set_in("status", "containerStatuses", 0, "restartCount", to=2)),
    (PODS, set_in("status", "containerStatuses", 0, "state", to={"waiting": {"reason": "CrashLoopBackOff"}})),
    (PODS, set_in("status", "podIP", to="10.0.0.9")),
    (NODES, set_in("status", "conditions", 0, "lastHeartbeatTime", to="2")),
    (NODES, set_in("status", "nodeInfo", to={"kubeletVersion": "v2"})),
    (NODES, set_in("metadata", "managedFields", to=[{}])),
]
NEWS: list[tuple[Resource[Any], Change]] = [
    (PODS, set_in("metadata", "labels", "app", to="db")),
    (PODS, set_in("metadata", "annotations", to={"a": "b"})),
    (PODS, set_in("metadata", "deletionTimestamp", to="2026-01-02T00:00:00Z")),
    (PODS, set_in("metadata", "generation", to=2)),
    (PODS, set_in("metadata", "uid", to="another")),
    (PODS, set_in("metadata", "ownerReferences", to=[{"name": "x"}])),
    (PODS, set_in("spec", "containers", 0, "resources", to={"requests": {"cpu": "2"}})),
    (PODS, set_in("spec", "nodeName", to="n2")),
    (PODS, set_in("status", "phase", to="Succeeded")),
    (PODS, set_in("status", "phase", to="Failed")),
    (PODS, set_in("status", "startTime", to="2026-01-02T00:00:00Z")),
    (PODS, set_in("status", "nominatedNodeName", to="n3")),
    (PODS, set_in("status", "conditions", 0, "status", to="False")),
    (PODS, set_in("status", "conditions", 1, "status", to="True")),
    (PODS, set_in("status", "conditions", 0, "message", to="0/1 nodes are available")),
    (PODS, set_in("status", "conditions", to=[{"type": "PodResizePending", "reason": "Infeasible"}])),
    (PODS, set_in("status", "conditions", to=[{"type": "DisruptionTarget", "status": "True"}])),
    (PODS, set_in("status", "resources", to={"requests": {"cpu": "3"}})),
    (PODS, set_in("status", "allocatedResources", to={"cpu": "3"})),
    (PODS, set_in("status", "containerStatuses", 0, "resources", to={"requests": {"cpu": "3"}})),
    (PODS, set_in("status", "containerStatuses", 0, "allocatedResources", to={"cpu": "3"})),
    (PODS, set_in("status", "initContainerStatuses", to=[{"name": "i", "resources": {}}])),
    (PODS, set_in("status", "resourceClaimStatuses", to=[{"name": "gpu", "resourceClaimName": "web-gpu-x7"}])),
    (PODS, set_in("status", "extendedResourceClaimStatus", to={"resourceClaimName": "web-extended"})),
    (PODS, set_in("status", "nodeAllocatableResourceClaimStatuses", to=[{"resourceClaimName": "web-gpu-x7"}])),
    (NODES, set_in("metadata", "labels", "zone", to="b")),
    (NODES, set_in("metadata", "annotations", to={"a": "b"})),
    (NODES, set_in("metadata", "deletionTimestamp", to="2026-01-02T00:00:00Z")),
    (NODES, set_in("spec", "unschedulable", to=True)),
    (NODES, set_in("spec", "taints", to=[])),
    (NODES, set_in("status", "allocatable", to={"cpu": "7"})),
    (NODES, set_in("status", "capacity", to={"cpu": "9"})),
    (NODES, set_in("status", "conditions", 0, "status", to="False")),
    (NODES, set_in("status", "images", to=[])),
    (NODES, set_in("status", "declaredFeatures", to=["x"])),
]


def made_for(resource: Resource[Any]) -> Object:
    return pod() if resource is PODS else node()


@pytest.mark.parametrize(("resource", "change"), NOTHING_NEW)
def test_a_change_of_what_nobody_reads_is_left_undecoded(resource: Resource[Any], change: Change) -> None:
    obj = made_for(resource)
    watch = Watch(resource).has_reported(obj)
    change(obj)
    assert watch.report(obj) is None


@pytest.mark.parametrize(("resource", "change"), NEWS)
def test_news_is_passed_on_once(resource: Resource[Any], change: Change) -> None:
    obj = made_for(resource)
    watch = Watch(resource).has_reported(obj)
    change(obj)
    reported = watch.report(obj)
    assert reported is not None
    assert reported.object == LineDecoder(resource)(json.dumps({"type": "MODIFIED", "object": obj}).encode()).object


@pytest.mark.parametrize(("status", "compared"), [(PodStatus, _PodStatus), (NodeStatus, _NodeStatus)])
def test_all_fields_of_a_status_are_compared(status: type[APIStruct], compared: type[APIStruct]) -> None:
    assert set(compared.__struct_fields__) == set(status.__struct_fields__)


def test_the_way_back_is_news_too() -> None:
    obj = pod()
    watch = Watch(PODS).has_reported(obj)
    obj["metadata"]["labels"]["app"] = "db"
    assert watch.report(obj) is not None
    obj["metadata"]["labels"]["app"] = "web"
    assert watch.report(obj) is not None
    assert watch.report(obj) is None


def test_each_object_is_compared_with_itself() -> None:
    one, other = pod(), pod()
    other["metadata"]["uid"] = "u9"
    watch = Watch(PODS).has_reported(one)
    assert watch.report(other) is not None


def test_an_object_that_is_gone_is_forgotten() -> None:
    obj = pod()
    watch = Watch(PODS).has_reported(obj)
    assert watch.report(obj, "DELETED") is not None
    assert watch.report(obj, "ADDED") is not None
    assert watch.report(obj) is not None


@pytest.mark.parametrize("resource", [PODS, POD_DOCUMENTS], ids=["pods", "pods, whole"])
def test_pods_that_wait_say_something_new_each_time(resource: Resource[Any]) -> None:
    waiting = pod()
    del waiting["spec"]["nodeName"]
    watch = Watch(resource).has_reported(waiting)
    assert watch.report(waiting) is not None
    waiting["spec"]["nodeName"] = "n1"
    watch.has_reported(waiting)
    assert watch.report(waiting) is None


def test_another_watch_starts_afresh() -> None:
    obj = pod()
    Watch(PODS).has_reported(obj)
    assert Watch(PODS).report(obj) is not None


@pytest.mark.parametrize("resource", [NAMESPACES, NODE_DOCUMENTS])
def test_every_event_of_other_kinds_is_reported(resource: Resource[Any]) -> None:
    watch = Watch(resource)
    obj = {"metadata": {"name": "x", "uid": "u"}}
    assert all(watch.report(obj) is not None for _ in range(4))


def test_an_object_that_cannot_be_read_is_no_repeat() -> None:
    obj = pod()
    watch = Watch(PODS).has_reported(obj)
    bad = copy.deepcopy(obj)
    bad["spec"]["containers"] = 5
    assert watch.report(bad) is None  # it is logged, and there is no object
    assert watch.report(obj) is not None


@given(st.lists(st.sampled_from([change for kind, change in NOTHING_NEW + NEWS if kind is PODS]), max_size=12))
def test_what_is_kept_of_pods_is_what_was_reported_last(changes: list[Change]) -> None:
    kept = follow(PODS, pod(), changes)
    assert all(settled(was) == settled(now) for was, now in kept)


@given(st.lists(st.sampled_from([change for kind, change in NOTHING_NEW + NEWS if kind is NODES]), max_size=12))
def test_what_is_kept_of_nodes_is_what_was_reported_last(changes: list[Change]) -> None:
    kept = follow(NODES, node(), changes)
    assert all(settled(was) == settled(now) for was, now in kept)


def follow(resource: Resource[Any], obj: Object, changes: list[Change]) -> list[tuple[Any, Any]]:
    """After each change: what somebody who follows the watch holds, and the object as it is."""
    watch = Watch(resource).has_reported(obj)
    held: Any = None
    pairs = []
    for change in (lambda obj: None, *changes):
        try:
            change(obj)
        except (IndexError, KeyError):
            continue  # an earlier change took the place away
        event = watch.report(obj)
        fresh = LineDecoder(resource)(json.dumps({"type": "MODIFIED", "object": obj}).encode())
        assert fresh is not None
        held = fresh.object if held is None else held
        held = held if event is None else event.object
        pairs.append((held, fresh.object))
    return pairs


def settled(obj: Pod | Node) -> Pod | Node:
    """Without what may differ."""
    obj = structs.replace(obj, metadata=structs.replace(obj.metadata, resource_version=""))
    if not isinstance(obj, Pod):
        return obj
    status = obj.status
    conditions = [
        PodCondition(condition.type, condition.status) if condition.type in KUBELETS else condition
        for condition in status.conditions or ()
    ]
    return structs.replace(obj, status=structs.replace(status, conditions=conditions))
