"""Streams of server-sent events: one for each browser that watches a view.

A stream holds no queue: when it is woken it is sent what is new, so a slow one skips documents. The credentials of its
viewer are checked again every RECHECK_S, and the last event says why it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from kscheduler.client.reviews import User
from kscheduler.clock import Clock
from kscheduler.serving.authentication import Shown
from kscheduler.serving.live.access import PageAccess, Refused
from kscheduler.serving.live.hub import Hub
from kscheduler.serving.live.limits import StreamSlots
from kscheduler.serving.live.readings import NODES
from kscheduler.serving.live.topics import NOTHING, Topic, message

RECHECK_S = 10.0
HEARTBEAT_S = 10.0  # a comment at least so often shows both sides that the other is there
WRITE_S = 20.0  # a client that has taken nothing for so long is given up

_CODES = {401: "token", 403: "forbidden", 503: "unavailable"}


class Streams:
    def __init__(self, hub: Hub, access: PageAccess, clock: Clock, slots: StreamSlots | None = None) -> None:
        self._hub = hub
        self._access = access
        self._clock = clock
        self._slots = StreamSlots() if slots is None else slots
        self.heartbeat_s = HEARTBEAT_S

    def __len__(self) -> int:
        return len(self._slots)

    async def serve(
        self, request: web.Request, view: str, shown: Shown, user: User, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send the events of a view until the client leaves or must. Raises Refused if there is no room."""
        if self._hub.is_closed:
            raise Refused(503, "This scheduler is stopping.", retry_s=5)
        with self._slots.take(request.remote or ""):
            response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
            await response.prepare(request)
            with self._hub.viewer(view) as waker:
                try:
                    reason, words = await self._send(response, request, view, shown, user, waker)
                    await _write(response, message("end", {"reason": reason, "message": words}))
                except (ConnectionError, TimeoutError):
                    _cut(request)
            return response

    async def _send(
        self,
        response: web.StreamResponse,
        request: web.Request,
        view: str,
        shown: Shown,
        user: User,
        waker: asyncio.Event,
    ) -> tuple[str, str]:
        """Send what is new each time when the stream is woken. Returns why it has to end."""
        topic, seen = self._hub.topics[view], NOTHING
        checked = self._clock.now()
        while not self._hub.is_closed:
            waker.clear()
            try:
                if self._clock.now() >= checked + RECHECK_S:
                    user, checked = await self._access.user(shown, request.path), self._clock.now()
                    await self._check_nodes(view, user)
                messages: list[bytes] = []
                if topic.has_news(seen):
                    messages, seen = topic.messages(seen, await self._visible(topic, user))
            except Refused as error:
                return _CODES.get(error.status, "unavailable"), str(error)
            for each in messages:
                await _write(response, each)
            try:
                async with asyncio.timeout(self.heartbeat_s):
                    await waker.wait()
            except TimeoutError:
                await _write(response, b": here\n\n")
        return "stopping", "This scheduler is stopping."

    async def _visible(self, topic: Topic, user: User) -> frozenset[str] | None:
        namespaces = topic.namespaces()
        return await self._access.visible(user, namespaces) if namespaces else frozenset()

    async def _check_nodes(self, view: str, user: User) -> None:
        if view == NODES and not await self._access.may_list(user, "nodes"):
            raise Refused(403, "You may not list nodes.")


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(data)


def _cut(request: web.Request) -> None:
    """Close the connection without waiting for the client to take what is left."""
    if request.transport is not None:
        request.transport.abort()
