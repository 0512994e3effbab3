"""An apiserver of sockets and dicts, with faults on order: what the HTTP client is tested against.

It keeps pods, leases and what was posted to it, speaks enough of list, watch, binding, status, events and leases, and
misbehaves where a test says so: `server.fail("POST", "/binding", status=429, retry_after="0.01")`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kscheduler.client.protocol import Binding

BINDING = Binding("default", "web-1", "uid-1", "node-7")


@dataclass
class Fault:
    """What to do instead of answering, for the next `times` requests of this verb whose path holds `part`."""

    verb: str
    part: str
    times: int = 1
    status: int = 0
    reason: str = ""
    retry_after: str = ""
    hang_s: float = 0.0
    cut: bool = False  # close the connection without an answer
    body: bytes | None = None  # answer with this, and `status` or 200


@dataclass
class Request:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer: object = None  # the connection's other end


@dataclass
class WatchScript:
    """What one watch sends: chunks of bytes, then an end."""

    chunks: list[bytes] = field(default_factory=list)
    then: str = "end"  # "end", "cut" or "hang"


class FakeAPIServer:
    """Start with `running`. Public attributes are for tests to fill and read."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.pods: list[dict[str, Any]] = []
        self.leases: dict[str, dict[str, Any]] = {}
        self.watches: list[WatchScript] = []  # one for each watch to come; the last repeats
        self.faults: list[Fault] = []
        self.accepted_tokens: set[str] | None = None
        self.version = 100

    def fail(self, verb: str, part: str, **what: Any) -> None:
        self.faults.append(Fault(verb, part, **what))

    def sent(self, verb: str, part: str) -> list[Request]:
        return [r for r in self.requests if r.verb == verb and part in r.path]

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeAPIServer]:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    # --- answering ----------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        headers = dict(request.headers)
        self.requests.append(Request(request.method, request.path, dict(request.query), headers, body, peer))
        if self.accepted_tokens is not None and request.headers.get("Authorization", "") not in self.accepted_tokens:
            return status(401, "Unauthorized", "who are you")
        fault = self._fault(request.method, request.path)
        if fault is not None and (answer := await self._misbehave(request, fault)) is not None:
            return answer
        if request.query.get("watch") == "true":
            return await self._watch(request)
        return self._answer(request, body)

    def _fault(self, verb: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.verb == verb and fault.part in path:
                fault.times -= 1
                return fault
        return None

    async def _misbehave(self, request: web.Request, fault: Fault) -> web.StreamResponse | None:
        if fault.hang_s:
            await asyncio.sleep(fault.hang_s)
        if fault.cut:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if fault.body is not None:
            return web.Response(body=fault.body, status=fault.status or 200, content_type="application/json")
        if fault.status:
            return status(fault.status, fault.reason, "as ordered", retry_after=fault.retry_after)
        return None

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in script.chunks:
            await response.write(chunk)
            await asyncio.sleep(0.005)  # so that chunks arrive apart
        if script.then == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif script.then == "hang":
            await asyncio.sleep(3600)
        return response

    def _answer(self, request: web.Request, body: bytes) -> web.Response:
        path, verb = request.path, request.method
        if "/leases" in path:
            return self._lease(verb, path, body)
        if verb == "GET" and path.endswith("/pods"):
            return self._list(request)
        if verb == "POST":
            return status(201, "", "", success=True)
        if verb in ("PATCH", "DELETE"):
            return web.json_response({})
        if path == "/version":
            return web.json_response({"gitVersion": "v1.36.0"})
        return status(404, "NotFound", f"nothing at {path}")

    def _list(self, request: web.Request) -> web.Response:
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or len(self.pods) or 1)
        more = start + limit < len(self.pods)
        metadata = {"resourceVersion": str(self.version), **({"continue": str(start + limit)} if more else {})}
        items = self.pods[start : start + limit]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})

    def _lease(self, verb: str, path: str, body: bytes) -> web.Response:
        lease = json.loads(body) if body else {}
        name = path.rpartition("/")[2] if verb != "POST" else lease["metadata"]["name"]
        known = self.leases.get(name)
        if verb == "POST" and known is not None:
            return status(409, "AlreadyExists", "it exists")
        if verb != "POST" and known is None:
            return status(404, "NotFound", "no such lease")
        if verb == "GET":
            return web.json_response(known)
        if verb == "PUT" and known and lease["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.leases[name] = lease
        return web.json_response(lease, status=201 if verb == "POST" else 200)


def status(code: int, reason: str, message: str, *, retry_after: str = "", success: bool = False) -> web.Response:
    """A metav1.Status."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Success" if success else "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return web.json_response(body, status=code, headers={"Retry-After": retry_after} if retry_after else None)


def pod(name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod as the apiserver writes it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def line(event_type: str, obj: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": event_type, "object": obj}).encode() + b"\n"
