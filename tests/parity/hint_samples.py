"""Cases of queueing hints, read as objects and events."""

from __future__ import annotations

from typing import Any

from kscheduler.api import devices
from kscheduler.api import storage as api
from kscheduler.api.node_change import NodeChange
from kscheduler.api.objects import Node, Pod
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    EventResource,
    node_events,
    pod_events,
)
from tests.parity.detours import read_node, read_pod
from tests.parity.devices.ours import read_objects
from tests.parity.generate_hints import Change

STORED: dict[str, tuple[type[Any], EventResource]] = {
    "PersistentVolume": (api.PersistentVolume, EventResource.PERSISTENT_VOLUME),
    "PersistentVolumeClaim": (api.PersistentVolumeClaim, EventResource.PERSISTENT_VOLUME_CLAIM),
    "StorageClass": (api.StorageClass, EventResource.STORAGE_CLASS),
    "CSINode": (api.CSINode, EventResource.CSI_NODE),
    "CSIDriver": (api.CSIDriver, EventResource.CSI_DRIVER),
    "CSIStorageCapacity": (api.CSIStorageCapacity, EventResource.CSI_STORAGE_CAPACITY),
    "VolumeAttachment": (api.VolumeAttachment, EventResource.VOLUME_ATTACHMENT),
    "ResourceClaim": (devices.ResourceClaim, EventResource.RESOURCE_CLAIM),
    "ResourceSlice": (devices.ResourceSlice, EventResource.RESOURCE_SLICE),
    "DeviceClass": (devices.DeviceClass, EventResource.DEVICE_CLASS),
}


def read(change: Change, release: Release = DEFAULT_RELEASE) -> tuple[object, object, list[ClusterEvent]]:
    if change.kind == "Node":
        before = None if change.old is None else read_node(change.old)
        after = None if change.new is None else read_node(change.new)
        return before, after, _events_of_node(before, after)
    if change.kind in STORED:
        kind, resource = STORED[change.kind]
        old = None if change.old is None else read_objects([change.old], kind)[0]
        new = None if change.new is None else read_objects([change.new], kind)[0]
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
        return old, new, [ClusterEvent(resource, action)]
    was = None if change.old is None else read_pod(change.old, release).pod
    now = None if change.new is None else read_pod(change.new, release).pod
    return was, now, _events_of_pod(was, now, release)


def _events_of_node(before: Node | None, after: Node | None) -> list[ClusterEvent]:
    if before is None:
        return [NODE_ADD]
    return [NODE_DELETE] if after is None else node_events(NodeChange.between(before, after))


def _events_of_pod(before: Pod | None, after: Pod | None, release: Release) -> list[ClusterEvent]:
    if before is None:
        return [ASSIGNED_POD_ADD]
    return [ASSIGNED_POD_DELETE] if after is None else pod_events(before, after, release)
