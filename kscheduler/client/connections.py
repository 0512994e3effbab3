"""Keep-alive connections for small requests, one request at a time on each: what bindings and Events travel on.

A tenth of the cost of a general HTTP client, because nothing general is done: no redirects, cookies, compression or
proxies. Errors are OSError, asyncio.TimeoutError or BadAnswer; the transport above knows what they mean.
"""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlsplit

from kscheduler.client.credentials import Endpoint
from kscheduler.client.http_answer import Answer, AnswerReader, BadAnswer


class ConnectionPool:
    """As many connections as there are requests at once; the one used last is used next, so that spares run dry."""

    def __init__(self, endpoint: Endpoint, *, connect_timeout_s: float, keep_alive_s: float) -> None:
        parts = urlsplit(endpoint.host)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if endpoint.is_tls else 80)
        self._endpoint = endpoint
        self._connect_timeout_s = connect_timeout_s
        self._keep_alive_s = keep_alive_s
        self._idle: list[Connection] = []  # used longest ago first
        self._all: set[Connection] = set()

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """Send a whole request and return the whole answer."""
        connection = self._take() or await self._connect()
        answer = await connection.exchange(request, timeout_s)
        if answer.reusable and connection.is_open:
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    def _take(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - self._keep_alive_s
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.last_used > oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint
        tls = endpoint.ssl or endpoint.is_tls
        server_name = (endpoint.server_name or self._host) if tls else None
        connecting = loop.create_connection(
            lambda: Connection(self._all), self._host, self._port, ssl=tls or None, server_hostname=server_name
        )
        _, connection = await asyncio.wait_for(connecting, self._connect_timeout_s)
        return connection

    async def close(self) -> None:
        """Drop all connections; exchanges under way fail."""
        for connection in list(self._all):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # their exchanges fail now


class Connection(asyncio.Protocol):
    """One TCP or TLS connection."""

    def __init__(self, open_ones: set[Connection]) -> None:
        self._open_ones = open_ones
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._waiter: asyncio.Future[Answer] | None = None
        self.last_used = self._loop.time()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """Whatever goes wrong, cancellation included, ends the connection: an answer may still be under way."""
        transport = self._transport
        if transport is None:
            raise ConnectionResetError("the connection was closed")
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._fail, asyncio.TimeoutError())
        try:
            transport.write(request)
            answer = await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None
        self.last_used = self._loop.time()
        return answer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._open_ones.add(self)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.abort()  # nobody asked
            return
        try:
            answer = self._reader.feed(data)
        except BadAnswer as error:
            self._fail(error)
            return
        if answer is not None:
            waiter.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._open_ones.discard(self)
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        answer = self._reader.end()
        if answer is not None:
            waiter.set_result(answer)
        else:
            cause = "before" if self._reader.is_fresh else "in the middle of"
            waiter.set_exception(error or ConnectionResetError(f"the server hung up {cause} its answer"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
