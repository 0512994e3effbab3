from __future__ import annotations

import json
from typing import Any

import pytest

from kscheduler.api.decode import decode_object
from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Node
from kscheduler.client.watch_dedup import WatchDedup

BASE: dict[str, Any] = {
    "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"zone": "a"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4"},
        "images": [{"names": ["busybox"], "sizeBytes": 1}],
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        "declaredFeatures": ["a"],
    },
}
CHANGES: dict[str, tuple[str, Any]] = {
    "allocatable": ("status.allocatable", {"cpu": "8"}),
    "labels": ("metadata.labels", {"zone": "b"}),
    "annotations": ("metadata.annotations", {"note": "new"}),
    "taints": ("spec.taints", []),
    "cordoned": ("spec.unschedulable", True),
    "images": ("status.images", []),
    "declared_features": ("status.declaredFeatures", ["a", "b"]),
    "conditions": ("status.conditions", [{"type": "Ready", "status": "False"}]),
}


def changed(path: str, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(BASE))
    part, field = path.split(".")
    document[part][field] = value
    return document


def node(document: dict[str, Any]) -> Node:
    return decode_object(json.dumps(document).encode(), Node)


def flags(change: NodeChange) -> set[str]:
    return {name for name, has_changed in change._asdict().items() if has_changed}


@pytest.mark.parametrize("field", CHANGES)
def test_each_part_that_changes_is_named_alone(field: str) -> None:
    assert flags(NodeChange.between(node(BASE), node(changed(*CHANGES[field])))) == {field}


def test_a_node_is_uncordoned_when_unschedulable_goes() -> None:
    cordoned = node(changed("spec.unschedulable", True))
    assert flags(NodeChange.between(cordoned, node(BASE))) == {"uncordoned"}


def test_every_part_has_a_case_here() -> None:
    assert {*CHANGES, "uncordoned"} == set(NodeChange._fields)


def test_a_heartbeat_changes_nothing() -> None:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:10Z"}
    change = NodeChange.between(node(BASE), node(changed("status.conditions", [condition])))
    assert not flags(change)
    assert not change.is_seen_by_plugins


def test_only_labels_taints_and_cordons_move_a_node_to_another_class() -> None:
    moving = {
        field
        for field, change in CHANGES.items()
        if NodeChange.between(node(BASE), node(changed(*change))).alters_class
    }
    assert moving == {"labels", "taints", "cordoned"}


def test_plugins_see_everything_but_conditions() -> None:
    seen = {
        field
        for field, change in CHANGES.items()
        if NodeChange.between(node(BASE), node(changed(*change))).is_seen_by_plugins
    }
    assert seen == CHANGES.keys() - {"conditions"}


@pytest.mark.parametrize("field", CHANGES)
def test_the_watch_passes_on_each_change_that_is_named(field: str) -> None:
    dedup = WatchDedup(Node)

    def is_repeat(document: dict[str, Any], version: str) -> bool:
        document["metadata"]["resourceVersion"] = version
        line = json.dumps({"type": "MODIFIED", "object": document}, separators=(",", ":")).encode() + b"\n"
        return bool(dedup.version_if_repeat(line))

    before, after = changed("metadata.uid", "u"), changed(*CHANGES[field])
    for version in ("1", "2"):
        is_repeat(before, version)
    assert is_repeat(before, "3")
    assert not is_repeat(after, "4")
