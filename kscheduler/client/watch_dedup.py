"""Recognises watch events that change nothing for the scheduler, before their objects are decoded.

A kubelet writes the status of each pod many times (restarts, states, probe times), and that of its node for every
heartbeat. Each object has a fingerprint of all that decisions read; a MODIFIED event with the previous fingerprint is a
repeat. The fingerprint covers all fields of `Pod` or `Node` except

- the resource version,
- for a pod, the times and texts of the four conditions that only the kubelet writes.

These structs do not hold container states, restarts, addresses, heartbeats and managedFields in the first place.

Only events of bound pods are compared, which kubelets write to. What happens to a pod that waits is nearly always news:
its claims are named, it is nominated, its condition says why it waits. Then it is bound, which is no repeat either.

The first MODIFIED event of each object on a watch is passed on without a fingerprint, because most pods change only
once, when they are bound. Nothing is remembered from one watch to the next.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from kscheduler.api.documents import PodDocument
from kscheduler.api.objects import APIStruct, Node, Pod
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder

_MODIFIED: Final = b'{"type":"MODIFIED"'  # the order in which Go writes its fields
_DELETED: Final = b'{"type":"DELETED"'
_BOUND: Final = b'"nodeName":"'  # quotes within a text are escaped, so this is the name of a field
_UID: Final = b'"uid":"'  # its first place in a line is the object's: only names come before it in the metadata
# How conditions begin that are written by kubelets alone: their times and texts are read by nobody here.
_KUBELETS: Final = (
    b'{"type":"PodReadyToStartContainers"',
    b'{"type":"Initialized"',
    b'{"type":"ContainersReady"',
    b'{"type":"Ready"',
)
_TIMES: Final = b'"lastProbeTime"'  # of a condition, and behind it all but its type, generation and status
_NOTHING: Final = msgspec.Raw(b"")


class _Meta(APIStruct, frozen=True):
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: msgspec.Raw = _NOTHING
    annotations: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING
    deletion_timestamp: str | None = None

    def parts(self) -> tuple[object, ...]:
        return (
            self.uid,
            self.generation,
            bytes(self.labels),
            bytes(self.annotations),
            bytes(self.owner_references),
            self.deletion_timestamp,
        )


class _Container(APIStruct, frozen=True):
    name: str = ""
    resources: msgspec.Raw = _NOTHING
    allocated_resources: msgspec.Raw = _NOTHING


class _PodStatus(APIStruct, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[msgspec.Raw] | None = None
    resources: msgspec.Raw = _NOTHING
    allocated_resources: msgspec.Raw = _NOTHING
    container_statuses: list[_Container] | None = None
    init_container_statuses: list[_Container] | None = None
    resource_claim_statuses: msgspec.Raw = _NOTHING
    extended_resource_claim_status: msgspec.Raw = _NOTHING
    node_allocatable_resource_claim_statuses: msgspec.Raw = _NOTHING

    def parts(self) -> tuple[object, ...]:
        return (
            self.phase,
            self.nominated_node_name,
            self.start_time,
            tuple(map(_condition, self.conditions or ())),
            bytes(self.resources),
            bytes(self.allocated_resources),
            _resources_of(self.container_statuses),
            _resources_of(self.init_container_statuses),
            bytes(self.resource_claim_statuses),
            bytes(self.extended_resource_claim_status),
            bytes(self.node_allocatable_resource_claim_statuses),
        )


def _condition(raw: msgspec.Raw) -> bytes:
    condition = bytes(raw)
    return condition.partition(_TIMES)[0] if condition.startswith(_KUBELETS) else condition


def _resources_of(containers: list[_Container] | None) -> tuple[object, ...]:
    return tuple([(one.name, bytes(one.resources), bytes(one.allocated_resources)) for one in containers or ()])


class _NodeCondition(APIStruct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(APIStruct, frozen=True):
    capacity: msgspec.Raw = _NOTHING
    allocatable: msgspec.Raw = _NOTHING
    images: msgspec.Raw = _NOTHING
    conditions: list[_NodeCondition] | None = None
    declared_features: msgspec.Raw = _NOTHING

    def parts(self) -> tuple[object, ...]:
        return (
            bytes(self.capacity),
            bytes(self.allocatable),
            bytes(self.images),
            tuple(self.conditions or ()),
            bytes(self.declared_features),
        )


S = TypeVar("S", _PodStatus, _NodeStatus)


class _Outline(APIStruct, Generic[S], frozen=True):
    """An object of which only frequently changing parts are decoded, to compute its fingerprint."""

    metadata: _Meta
    status: S
    spec: msgspec.Raw = _NOTHING


class _Line(msgspec.Struct, Generic[S], frozen=True, gc=False):
    object: _Outline[S]


# The kinds whose status others write all the time.
_STATUSES: Final[dict[type, type]] = {Pod: _PodStatus, PodDocument: _PodStatus, Node: _NodeStatus}


@functools.cache
def _outliner(kind: type) -> Callable[[bytes], Any]:
    return json_decoder(_Line[_STATUSES[kind]])  # type: ignore[valid-type]


def dedup_of(kind: type) -> WatchDedup | None:
    """Return a new `WatchDedup` for a kind, or None for kinds of which every event is to be decoded."""
    return WatchDedup(kind) if kind in _STATUSES else None


class WatchDedup:
    """The fingerprints of one watch's objects. Pass it every line but those of ADDED events, in order."""

    def __init__(self, kind: type) -> None:
        self._outline = _outliner(kind)
        self._only_bound = kind is not Node
        self._passed_on: dict[bytes, int] = {}  # object's uid -> fingerprint of what was passed on; 0: not looked at

    def version_if_repeat(self, line: bytes) -> str:
        """Return the resource version of an event that changes nothing for the scheduler; "" for all others."""
        if not line.startswith(_MODIFIED):
            if line.startswith(_DELETED):
                at = line.find(_UID) + len(_UID)
                self._passed_on.pop(line[at : line.find(b'"', at)], None)
            return ""
        if self._only_bound and _BOUND not in line:
            return ""
        at = line.find(_UID) + len(_UID)
        uid = line[at : line.find(b'"', at)]
        before = self._passed_on.get(uid)
        if before is None:
            self._passed_on[uid] = 0
            return ""
        try:
            outline = self._outline(line).object
        except DecodeError:
            self._passed_on[uid] = 0  # whatever becomes of it, the next one is news
            return ""
        now = hash((outline.metadata.parts(), bytes(outline.spec), outline.status.parts()))
        if now == before and outline.metadata.uid.encode() == uid:
            version: str = outline.metadata.resource_version
            return version
        self._passed_on[uid] = now
        return ""
