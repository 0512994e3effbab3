"""What can go wrong on the way, each as a value: whom it hits, and what happens to them.

Every fault can be narrowed by verb, resource and name (patterns as of a shell: `pods*`), by backend, to connections
that were open when it began, to a share or number of the requests it would hit, and to the first requests for each
object or those after them.
"""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from typing import Literal

from tests.support.faultproxy.http1 import Target

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Whom a fault hits. The order in which faults were added is the order in which they act on a request."""

    verb: str = "*"
    resource: str = "*"  # with its subresource, such as pods/binding
    name: str = "*"  # of the object
    spared: str = ""  # a resource that is left alone
    backend: int | None = None  # connections take the backends in turns, as a load balancer would have it
    old_connections: bool = False  # only those that were open when the fault began
    share: float = 1.0  # of the requests, watches or connections it would hit
    limit: int | None = None  # hit no more than so many
    begin: int = 0  # of the requests for one object it would hit, which are numbered from 0, from this one on
    end: int | None = None  # and up to this one, which is not hit

    def matches(self, target: Target) -> bool:
        """Whether a request for the target is one of those it may hit."""
        return (
            fnmatch.fnmatchcase(target.verb, self.verb)
            and fnmatch.fnmatchcase(target.resource, self.resource)
            and fnmatch.fnmatchcase(target.name, self.name)
            and not (self.spared and fnmatch.fnmatchcase(target.resource, self.spared))
        )

    def __str__(self) -> str:
        changed = [f"{key}={value!r}" for key, value in vars(self).items() if getattr(type(self), key) != value]
        return f"{type(self).__name__}({', '.join(changed)})"


@dataclass(frozen=True)
class RequestFault(Fault):
    """Acts on single requests, watches included when they begin."""


@dataclass(frozen=True, repr=False)
class Latency(RequestFault):
    """The request, or the answer, is on its way for so long. It arrives even when the client has hung up by then."""

    seconds: float = 0.1
    jitter_s: float = 0.0  # up to so much more, evenly
    of_answer: bool = False


@dataclass(frozen=True, repr=False)
class Reset(RequestFault):
    """The connection is reset: before the request was passed on, or after the apiserver answered it."""

    arrived: bool = False


@dataclass(frozen=True, repr=False)
class Hang(RequestFault):
    """No answer ever comes, also not after the fault has ended; the request may have arrived nevertheless."""

    arrived: bool = False


@dataclass(frozen=True, repr=False)
class Answer(RequestFault):
    """An error is answered in place of the apiserver, or against its own answer when the request has `arrived`."""

    status: int = 500
    arrived: bool = False
    retry_after_s: int | None = None
    message: str = "made by the fault proxy"
    content: bytes | None = None  # in place of a metav1.Status, such as a load balancer's page

    def response(self) -> bytes:
        """The whole answer."""
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": REASONS.get(self.status, "Unknown"),
            "code": self.status,
        }
        body = json.dumps(status).encode() if self.content is None else self.content
        kind = "application/json" if self.content is None else "text/html"
        after = "" if self.retry_after_s is None else f"Retry-After: {self.retry_after_s}\r\n"
        head = f"HTTP/1.1 {self.status} Fault\r\nContent-Type: {kind}\r\n{after}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


@dataclass(frozen=True, repr=False)
class Drip(RequestFault):
    """Answers come in small pieces with a pause after each, as long as the fault lasts."""

    piece_bytes: int = 64
    pause_s: float = 0.05


@dataclass(frozen=True)
class StreamFault(Fault):
    """Acts on watches: on those that are open when it begins, and on those that begin while it lasts."""


@dataclass(frozen=True, repr=False)
class Freeze(StreamFault):
    """The connection is open and nothing comes. Afterwards what was held back comes late, or it is reset, or stays."""

    then: Literal["deliver", "reset", "stay"] = "deliver"


@dataclass(frozen=True, repr=False)
class Cut(StreamFault):
    """The watch ends: in order, by a reset, or in the middle of a line."""

    how: Literal["end", "reset", "half_line"] = "reset"


GarbleKind = Literal[
    "bad_bytes", "bad_chunk", "error", "gone", "invalid_utf8", "truncated", "unknown_type", "wrong_json", "wrong_types"
]


@dataclass(frozen=True, repr=False)
class Garble(StreamFault):
    """Open watches get one bad line at once; while it lasts, real events are spoilt where the kind allows it.

    After `error` and `gone` (an ERROR event), `truncated` and `bad_chunk` the watch is over.
    """

    kind: GarbleKind = "bad_bytes"

    @property
    def ends_watch(self) -> bool:
        """Whether nothing can follow."""
        return self.kind in ("error", "gone", "truncated", "bad_chunk")

    def line(self) -> bytes:
        """A bad line of its own."""
        return _LINES[self.kind]

    def spoil(self, event: bytes) -> bytes:
        """A real line made bad; the kinds that replace or end are lines of their own."""
        middle = len(event) // 2
        if self.kind == "invalid_utf8":
            return event[:middle] + b"\xff\xc3" + event[middle + 2 :]
        if self.kind == "bad_bytes":
            return event[:middle] + b"\x00\x07" + event[middle + 2 :]
        if self.kind == "truncated":
            return event[:middle]
        return self.line()


def _error_line(code: int, reason: str, message: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    event = {"type": "ERROR", "object": {**status, "message": message, "reason": reason, "code": code}}
    return json.dumps(event).encode() + b"\n"


_LINES: dict[str, bytes] = {
    "bad_bytes": b"\x00\xfe\x01}{\n",
    "bad_chunk": b"",
    "error": _error_line(500, "InternalError", "made by the fault proxy"),
    "gone": _error_line(410, "Expired", "too old resource version: 1 (2)"),
    "invalid_utf8": b'{"type":"MODIFIED","object":{"metadata":{"name":"\xff\xfe","resourceVersion":"\xc3\x28"}}}\n',
    "truncated": b'{"type":"MODIFIED","object":{"metadata":{"na',
    "unknown_type": b'{"type":"IMPROVED","object":{"metadata":{"name":"x"}}}\n',
    "wrong_json": b'[1, 2, "three", null]\n',
    "wrong_types": b'{"type":"MODIFIED","object":{"metadata":[],"spec":"none","status":7}}\n',
}


@dataclass(frozen=True)
class ConnectionFault(Fault):
    """Acts on connections; verb and resource say nothing here."""


@dataclass(frozen=True, repr=False)
class Refuse(ConnectionFault):
    """An outage: connections are refused, and the open ones are reset when it begins.

    For one backend or a share, connections are accepted and reset at once.
    """

    open_ones: bool = True


@dataclass(frozen=True, repr=False)
class Silent(ConnectionFault):
    """Connections are accepted, and then nothing comes: no TLS, no answer. Open ones go on."""
