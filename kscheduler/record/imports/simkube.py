"""A trace of SimKube, version 2: a msgpack map with the applied and deleted objects of each second.

A trace mostly has the owners of pods, such as Deployments, in place of pods. Their pods are made here: as many as an
owner wants, from its template, and each leaves after the time that the trace says of the owner's pods in turn. A trace
has no nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.api.objects import APIObject
from kscheduler.client.kinds import PODS
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import msgpack_decoder
from kscheduler.record.entries import OBJECTS_ONLY, Change, Header, Readable, Synced
from kscheduler.record.imports.objects import MAX_BYTES, change_of, kind_of, read_object, too_large

VERSION = 2
MAX_PODS = 1_000_000  # of one trace at once
# Kind of an owner of pods -> the field of its spec with the number of pods; where it is missing, it is one.
_COUNTS = {"Job": "parallelism"}
_REPLICAS = "replicas"


class _Event(msgspec.Struct, frozen=True):
    ts: int  # Unix seconds
    applied_objs: list[dict[str, Any]] = []
    deleted_objs: list[dict[str, Any]] = []


class _Trace(msgspec.Struct, frozen=True):
    version: int
    config: dict[str, Any]
    events: list[_Event]
    pod_lifecycles: msgspec.Raw = msgspec.Raw(b"\x80")


_decode = msgpack_decoder(_Trace)
# (owner's kind, owner's namespace/name) -> hash of the pod's spec -> lifecycles of such pods, in turn
_decode_lifecycles = msgpack_decoder(dict[tuple[str, str], dict[int, list[Any]]])


class SimKubeTrace:
    """One trace; an `AnyRecord` with the pods of its owners."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises ConfigError if it is no trace, of another version, or too large."""
        self.path = path
        self.is_cut = False
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise too_large(path, size)
        try:
            self._trace = _decode(path.read_bytes())
            self._runs_s = _run_times(self._trace.pod_lifecycles)
        except DecodeError as error:
            raise ConfigError(f"{path}: expected a trace of SimKube, version {VERSION}: {error}") from None
        if self._trace.version != VERSION:
            raise ConfigError(f"{path}: expected a trace of SimKube of version {VERSION}, got {self._trace.version}")
        events = self._trace.events
        self._started_s = events[0].ts if events else 0
        self.header = Header(OBJECTS_ONLY, "SimKube", float(self._started_s))
        self._paths = _template_paths(self._trace.config)
        self._known: dict[tuple[str, str], APIObject] = {}  # (plural, key) -> last version of what exists
        self._pods: dict[str, list[APIObject]] = {}  # owner -> its pods that exist, oldest first
        self._leaving: list[tuple[float, int, str, APIObject]] = []  # (at, ticket, owner, pod), a heap
        self._tickets = count(1)
        self._number = 0  # of pods

    def __iter__(self) -> Iterator[Readable]:
        """Yield the changes in order. Raises ConfigError, naming the event, for an object that cannot be read."""
        yield Synced(0.0)
        at = 0.0
        for number, event in enumerate(self._trace.events):
            at = max(at, float(event.ts - self._started_s))
            yield from self._leave(at)
            where = f"{self.path}: events[{number}]"
            for document in event.applied_objs:
                yield from self._apply(where, at, document)
            for document in event.deleted_objs:
                yield from self._delete(at, document)
        yield from self._leave(float("inf"))

    def _apply(self, where: str, at: float, document: dict[str, Any]) -> Iterator[Change]:
        resource = kind_of(document)
        if resource is not None:
            obj = read_object(where, resource, document)
            place = (resource.plural, obj.key)
            yield change_of(at, resource, "MODIFIED" if place in self._known else "ADDED", obj)
            self._known[place] = obj
        for path in self._paths.get(_gvk(document), ()):
            template = _at(document, path)
            if isinstance(template, dict):
                yield from self._scale(where, at, document, template, f"{_owner(document)}{path}")

    def _scale(
        self, where: str, at: float, document: dict[str, Any], template: dict[str, Any], owner: str
    ) -> Iterator[Change]:
        """Yield pods that an owner has too few, or those deleted that it has too many."""
        pods = self._pods.setdefault(owner, [])
        wanted = _wanted(document)
        if self._number + wanted - len(pods) > MAX_PODS:
            raise ConfigError(f"{where}: expected at most {MAX_PODS:,} pods in a trace, got more")
        runs_s = self._runs_s.get((_gvk(document), _owner(document).partition(" ")[2]), ())
        while len(pods) < wanted:
            self._number += 1
            pod = self._pod(where, document, template)
            pods.append(pod)
            if runs_s:
                leaves = at + runs_s[(self._number - 1) % len(runs_s)]
                heapq.heappush(self._leaving, (leaves, next(self._tickets), owner, pod))
            yield change_of(at, PODS, "ADDED", pod)
        while len(pods) > wanted:
            yield change_of(at, PODS, "DELETED", pods.pop())

    def _pod(self, where: str, document: dict[str, Any], template: dict[str, Any]) -> APIObject:
        owner = _metadata(document)
        metadata = dict(_metadata(template))
        name = f"{owner.get('name', 'pod')}-{self._number}"
        metadata |= {"name": name, "namespace": owner.get("namespace", "default"), "uid": f"simkube-{self._number}"}
        return read_object(where, PODS, {**template, "metadata": metadata})

    def _delete(self, at: float, document: dict[str, Any]) -> Iterator[Change]:
        resource = kind_of(document)
        metadata = _metadata(document)
        if resource is not None:
            name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
            known = self._known.pop((resource.plural, f"{namespace}/{name}" if resource.namespaced else name), None)
            if known is not None:
                yield change_of(at, resource, "DELETED", known)
        for path in self._paths.get(_gvk(document), ()):
            for pod in self._pods.pop(f"{_owner(document)}{path}", ()):
                yield change_of(at, PODS, "DELETED", pod)

    def _leave(self, until: float) -> Iterator[Change]:
        """Yield the deletion of pods whose time is over; those of an owner that is gone have left already."""
        while self._leaving and self._leaving[0][0] <= until:
            at, _, owner, pod = heapq.heappop(self._leaving)
            pods = self._pods.get(owner, [])
            place = next((number for number, each in enumerate(pods) if each is pod), None)
            if place is not None:
                del pods[place]
                yield change_of(at, PODS, "DELETED", pod)


def _run_times(lifecycles: msgspec.Raw) -> Mapping[tuple[str, str], list[float]]:
    """Return how long pods of each owner ran, in seconds. Pods that did not end are left out."""
    found: dict[tuple[str, str], list[float]] = {}
    for owner, by_hash in _decode_lifecycles(bytes(lifecycles)).items():
        for each in (life for lives in by_hash.values() for life in lives):
            times = _times_of(each)
            if times is not None:
                found.setdefault(owner, []).append(max(times[1] - times[0], 0.0))
    return found


def _times_of(life: object) -> tuple[float, float] | None:
    """Return start and end of a lifecycle, in any of the ways in which traces have them; None if it has no end."""
    if not isinstance(life, dict):
        return None
    pair = life.get("Finished", (life.get("start_ts"), life.get("end_ts")))
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(each, int) for each in pair):
        return None
    return float(pair[0]), float(pair[1])


def _template_paths(config: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return kind of owner -> paths of pod templates in it, such as /spec/template."""
    tracked = config.get("trackedObjects")
    found: dict[str, tuple[str, ...]] = {}
    for kind, settings in (tracked if isinstance(tracked, dict) else {}).items():
        if isinstance(settings, dict):
            paths = settings.get("podSpecTemplatePaths") or [settings.get("podSpecTemplatePath")]
            found[kind] = tuple(path for path in paths if isinstance(path, str))
    return found


def _gvk(document: Mapping[str, Any]) -> str:
    return f"{document.get('apiVersion', '')}.{document.get('kind', '')}"


def _metadata(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's metadata; nothing if it has none, or something else in its place."""
    found = document.get("metadata")
    return found if isinstance(found, dict) else {}


def _owner(document: Mapping[str, Any]) -> str:
    metadata = _metadata(document)
    return f"{_gvk(document)} {metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _at(document: object, path: str) -> object:
    for name in path.strip("/").split("/"):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _wanted(document: Mapping[str, Any]) -> int:
    """Return how many pods an owner wants."""
    spec = document.get("spec")
    number = spec.get(_COUNTS.get(str(document.get("kind")), _REPLICAS)) if isinstance(spec, dict) else None
    return number if isinstance(number, int) and number >= 0 else 1
