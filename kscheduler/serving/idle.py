"""Closes idle connections, so that a client that sends no request, or half of one, cannot hold a socket for ever.

aiohttp closes a connection that is idle after an answer, but waits without limit for the first request and for the end
of its headers. A connection whose request is being answered is never closed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

SWEEP_S = 10.0


class Connection(Protocol):
    """An open connection, as represented by aiohttp's request handler."""

    def force_close(self) -> None: ...


class IdleConnections:
    """Tracks when each connection was last used; `sweep` closes those that were idle for `limit_s` seconds."""

    def __init__(self, connections: Callable[[], Iterable[Connection]], limit_s: float) -> None:
        self._connections = connections
        self._limit_s = limit_s
        self._last_use: dict[Connection, float] = {}  # open connection -> time of its last answer, or first sight
        self._busy: dict[Connection, int] = {}  # connection -> number of its requests being answered

    def begin(self, connection: Connection) -> None:
        self._busy[connection] = self._busy.get(connection, 0) + 1

    def end(self, connection: Connection, now: float) -> None:
        left = self._busy.pop(connection) - 1
        if left:
            self._busy[connection] = left
        self._last_use[connection] = now

    def sweep(self, now: float) -> int:
        """Close the connections that have been idle for too long; return how many."""
        open_now = set(self._connections())
        self._last_use = {one: self._last_use.get(one, now) for one in open_now}
        idle = [one for one, used in self._last_use.items() if one not in self._busy and now - used >= self._limit_s]
        for connection in idle:
            connection.force_close()
        return len(idle)

    async def sweep_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep(loop.time())
