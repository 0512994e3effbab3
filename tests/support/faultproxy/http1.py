"""The parts of HTTP/1.1 that a Kubernetes client and the apiserver speak, read from asyncio streams."""

from __future__ import annotations

import asyncio
import urllib.parse
from dataclasses import dataclass

LIMIT_BYTES = 1 << 20  # of a head or a chunk-size line
PIECE_BYTES = 64 << 10  # of a body that is passed on

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
NO_BODY = (204, 304)


class BadMessage(Exception):
    """A peer broke off, or sent what is no HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request's or response's first line and headers, as they came and by lower-case name."""

    raw: bytes  # with the empty line at its end
    first: str
    headers: dict[str, str]

    @property
    def length(self) -> int | None:
        """Content-Length, where there is one."""
        value = self.headers.get("content-length")
        return None if value is None else int(value)

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def status(self) -> int:
        """A response's status code."""
        return int(self.first.split(" ", 2)[1])


@dataclass(frozen=True, slots=True)
class Target:
    """What a request asks of Kubernetes: `create` of `pods/binding` in `default`, say."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection
    resource: str  # with its subresource, such as pods/binding; the path itself when it is no resource's
    namespace: str
    name: str


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None when the peer ended in between two messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadMessage("broke off within a head") from None
        return None
    except asyncio.LimitOverrunError as error:
        raise BadMessage(str(error)) from None
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(raw, first, headers)


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """A request's body with its framing, as it came."""
    if head.is_chunked:
        pieces = []
        while True:
            chunk = await read_chunk(reader)
            pieces.append(framed(chunk))
            if not chunk:
                return b"".join(pieces)
    return await reader.readexactly(head.length or 0)


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """The next chunk's content; empty for the last one. Trailers are not expected."""
    size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
    content = await reader.readexactly(size + 2)
    return content[:-2]


def framed(content: bytes) -> bytes:
    """A chunk as it goes over the wire."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def target_of(first: str) -> Target:
    """The target of a request line such as `POST /api/v1/namespaces/a/pods/b/binding HTTP/1.1`."""
    method, _, rest = first.partition(" ")
    path, _, query = rest.rpartition(" ")[0].partition("?")
    parts = [urllib.parse.unquote(part) for part in path.split("/") if part]
    prefix = {"api": 2, "apis": 3}.get(parts[0] if parts else "")
    if prefix is None or len(parts) <= prefix:
        return Target(method.lower(), path, "", "")
    parts, namespace = parts[prefix:], ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    resource = "/".join([parts[0], *parts[2:]])
    options = urllib.parse.parse_qs(query)
    return Target(_verb(method, name, options), resource, namespace, name)


def _verb(method: str, name: str, options: dict[str, list[str]]) -> str:
    if method == "GET":
        if options.get("watch", [""])[0] in ("1", "true"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return VERBS.get(method, method.lower())
