"""The views that browsers may watch: each makes JSON documents from readings, for all that watch it together.

A document is encoded once for all viewers that may see the same of it. What a stream was sent last is a small value of
its own (`Seen`), so that a slow one skips documents instead of having them wait in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kscheduler.observability.instruments import exponential
from kscheduler.observability.metrics import SLI_BOUNDS
from kscheduler.serving.live.node_picture import NodePicture
from kscheduler.serving.live.quantiles import quantile
from kscheduler.serving.live.readings import MadeDecision, Numbers, QueueReading, WaitingPod

KEPT_POINTS = 300  # of the overview: ten minutes
WINDOW_S = 60.0  # quantiles are of the pods bound in this time
LAG_BOUNDS = exponential(0.0001, 2, 16)
MOST_VERSIONS = 64  # of one document, for viewers that may see different namespaces

Seen = tuple[int, int]  # what a stream was sent last
NOTHING: Seen = (-1, -1)
Namespaces = frozenset[str] | None  # None: all

_encode = msgspec.json.Encoder().encode


def message(event: str, document: object) -> bytes:
    """Encode a server-sent event. JSON has no line breaks outside of strings, and escapes them in strings."""
    return b"event: " + event.encode() + b"\ndata: " + _encode(document) + b"\n\n"


class Topic(Protocol):
    def has_news(self, seen: Seen) -> bool:
        """Return True if there is something new for a stream that was sent `seen`."""
        ...

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces whose pods the newest document shows; none if it shows no pods."""
        ...

    def messages(self, seen: Seen, visible: Namespaces) -> tuple[list[bytes], Seen]:
        """Return the events for a stream that was sent `seen`, whose viewer may list the pods of `visible`."""
        ...


# --- overview -----------------------------------------------------------------------------------------------------


class Overview:
    """The figures of the last minutes, of which a stream is first sent all and then each new one."""

    def __init__(self) -> None:
        self._points: deque[dict[str, Any]] = deque(maxlen=KEPT_POINTS)
        self._before: deque[Numbers] = deque()  # of the last WINDOW_S, and one from before
        self._count = 0  # points so far
        self._replica: Mapping[str, object] = {}

    def add(self, numbers: Numbers, replica: Mapping[str, object], used: Mapping[str, float | None]) -> None:
        """Add the figures of one moment. `used`: resource -> share of the nodes' allocatable amount."""
        before = self._before
        last = before[-1] if before else None
        if last is not None and not 0 < numbers.at - last.at < WINDOW_S:  # nobody watched, or the clock was set
            before.clear()
            last = None
        before.append(numbers)
        while len(before) > 2 and before[1].at <= numbers.at - WINDOW_S:
            before.popleft()
        self._points.append({**_figures(numbers), **_rates(numbers, last), **_delays(numbers, before[0]), "used": used})
        self._replica = replica
        self._count += 1

    def has_news(self, seen: Seen) -> bool:
        return self._count > max(seen[0], 0)

    def namespaces(self) -> frozenset[str]:
        return frozenset()

    def messages(self, seen: Seen, visible: Namespaces) -> tuple[list[bytes], Seen]:
        points = list(self._points)[max(seen[0], 0) - self._count :]
        return [message("overview", {"replica": self._replica, "points": points})], (self._count, 0)


def _figures(numbers: Numbers) -> dict[str, float]:
    names = ("at", "active", "backoff", "unschedulable", "gated", "binding", "nodes", "pods")
    return {name: getattr(numbers, name) for name in names}


def _rates(numbers: Numbers, last: Numbers | None) -> dict[str, float | None]:
    names = ("scheduled", "rejected", "errors", "preemptions", "conflicts")
    if last is None:
        return dict.fromkeys(names)
    seconds = numbers.at - last.at
    return {name: round((getattr(numbers, name) - getattr(last, name)) / seconds, 3) for name in names}


def _delays(numbers: Numbers, first: Numbers) -> dict[str, float | None]:
    latency = [now - then for now, then in zip(numbers.latency, first.latency, strict=True)]
    lag = [now - then for now, then in zip(numbers.lag, first.lag, strict=True)]
    return {
        "p50": quantile(SLI_BOUNDS, latency, 0.5),
        "p99": quantile(SLI_BOUNDS, latency, 0.99),
        "lagP99": quantile(LAG_BOUNDS, lag, 0.99),
    }


# --- pods ---------------------------------------------------------------------------------------------------------


class _Listed:
    """A document with a list of pods, whose versions for different viewers are kept until the next one."""

    event = ""

    def __init__(self) -> None:
        self._rows: Sequence[WaitingPod | MadeDecision] = ()
        self._head: dict[str, Any] = {}
        self._of_all: dict[str, Any] = {}  # only for viewers that may list the pods of all namespaces
        self._version = 0
        self._encoded: dict[Namespaces, bytes] = {}
        self._namespaces: frozenset[str] = frozenset()

    def _replace(self, rows: Sequence[WaitingPod | MadeDecision], head: dict[str, Any], of_all: dict[str, Any]) -> None:
        if self._version and (rows, head, of_all) == (self._rows, self._head, self._of_all):
            return
        self._namespaces = frozenset(_namespace(row) for row in rows)
        self._rows, self._head, self._of_all = rows, head, of_all
        self._version += 1
        self._encoded.clear()

    def has_news(self, seen: Seen) -> bool:
        return self._version > max(seen[0], 0)

    def namespaces(self) -> frozenset[str]:
        return self._namespaces

    def messages(self, seen: Seen, visible: Namespaces) -> tuple[list[bytes], Seen]:
        if visible is not None:
            visible &= self._namespaces
        encoded = self._encoded.get(visible)
        if encoded is None:
            encoded = message(self.event, self._document(visible))
            if len(self._encoded) < MOST_VERSIONS:
                self._encoded[visible] = encoded
        return [encoded], (self._version, 0)

    def _document(self, visible: Namespaces) -> dict[str, Any]:
        if visible is None:
            return {**self._head, **self._of_all, "all": True, "rows": self._rows}
        return {**self._head, "all": False, "rows": [row for row in self._rows if _namespace(row) in visible]}


def _namespace(row: WaitingPod | MadeDecision) -> str:
    return row.pod.partition("/")[0]


class Queue(_Listed):
    """The first pods of each pool of the queue."""

    event = "queue"

    def replace(self, reading: QueueReading, numbers: Numbers) -> None:
        counts = {name: getattr(numbers, name) for name in ("active", "backoff", "unschedulable", "gated")}
        self._replace(reading.pods, {"counts": counts}, {"rejectedBy": dict(reading.rejected_by)})


class Decisions(_Listed):
    """The latest decisions, the newest first."""

    event = "decisions"

    def replace(self, reading: Sequence[MadeDecision]) -> None:
        self._replace(reading, {}, {})


# --- nodes --------------------------------------------------------------------------------------------------------


class Nodes:
    """The nodes' names and labels, sent when they change, and one byte for the use of each node and resource."""

    def __init__(self, picture: NodePicture) -> None:
        self._picture = picture
        self._encoded: dict[str, tuple[int, bytes]] = {}  # event -> its version, encoded

    def has_news(self, seen: Seen) -> bool:
        return bool(self._picture.version) and seen != (self._picture.version, self._picture.use_version)

    def namespaces(self) -> frozenset[str]:
        return frozenset()

    def messages(self, seen: Seen, visible: Namespaces) -> tuple[list[bytes], Seen]:
        picture, found = self._picture, []
        if seen[0] != picture.version:
            found.append(self._event("nodes", picture.version, picture.description))
        if seen[1] != picture.use_version:
            found.append(self._event("use", picture.use_version, picture.use))
        return found, (picture.version, picture.use_version)

    def _event(self, event: str, version: int, document: Any) -> bytes:
        known = self._encoded.get(event)
        if known is None or known[0] != version:
            known = self._encoded[event] = (version, message(event, document()))
        return known[1]
