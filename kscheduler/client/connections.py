"""Keep-alive connections for small requests such as bindings and Events, with one request at a time on each.

They cost a tenth of a general HTTP client, because they do nothing general: no redirects, cookies, compression or
proxies. A request can be awaited, or sent with a callback, which needs neither a task nor a future. Errors are OSError,
asyncio.TimeoutError or BadAnswer; `client.transport` interprets them.

A few connections are kept open even if nothing is requested for long: a new one costs the apiserver several
milliseconds of handshake, and a burst of pods would have to wait for all of these handshakes at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast
from urllib.parse import urlsplit

from kscheduler.client.alarm import Alarm
from kscheduler.client.concurrency import cancel_and_wait, within
from kscheduler.client.credentials import Endpoint
from kscheduler.client.http_answer import Answer, AnswerReader, BadAnswer

log = logging.getLogger(__name__)

BUFFER_BYTES = 1 << 13  # an answer to a write is half a kilobyte; a longer one comes in pieces
MOST_WARM = 12  # connections; an adaptive limit of writes starts with fewer
# A connection is idle for at most 45 s; common load balancers close one after 60 s. Keeping 12 of them open costs a
# third of a request a second.
WARM_PERIOD_S = 20.0  # from one check of the idle connections to the next
WARM_AGE_S = 25.0  # a connection idle for longer is used
WARM_TIMEOUT_S = 10.0
OnOutcome = Callable[[Answer | Exception], None]


class Carrier:
    """Knows which connection carries one request, so that the caller can close it or exclude it from reuse."""

    # Defaults of the class rather than an __init__, which would be a call for each request.
    _connection: Connection | None = None
    _is_distrusted = False
    is_given_up = False  # the request must not be sent any more, if it has not been

    def take(self, connection: Connection) -> None:
        self._connection = connection
        connection.is_trusted = not self._is_distrusted

    def distrust(self) -> None:
        """Exclude the request's connection from reuse: its server may hang, and a new one may lead to another."""
        self._is_distrusted = True
        if self._connection is not None:
            self._connection.is_trusted = False

    def abandon(self) -> None:
        """Close the request's connection, because the answer is not needed any more."""
        self.is_given_up = True
        if self._connection is not None:
            self._connection.abandon()


class ConnectionPool:
    """Keeps as many connections as there are concurrent requests.

    It reuses the most recently used, so that spare ones expire.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_timeout_s: float,
        keep_alive_s: float,
        ping: Callable[[], bytes] = bytes,
        warm_period_s: float = WARM_PERIOD_S,
        warm_age_s: float = WARM_AGE_S,
    ) -> None:
        """Create a pool without connections.

        `ping` returns a harmless request that keeps an idle connection alive, or empty bytes if none can be sent now.
        """
        self._endpoint = endpoint
        self._connect_timeout_s = connect_timeout_s
        self._keep_alive_s = keep_alive_s
        self._ping = ping
        self._warm_period_s = warm_period_s
        self._warm_age_s = warm_age_s
        self._idle: list[Connection] = []  # used longest ago first
        self._all: set[Connection] = set()
        self._warm = 0  # connections to have ready: as many as there have been at once, up to MOST_WARM
        self._warming: asyncio.Task[None] | None = None

    async def exchange(self, request: bytes, timeout_s: float, carrier: Carrier | None = None) -> Answer:
        """Send a complete request and return the complete answer."""
        connection = self.take_idle() or await self.connect()
        answer = await connection.exchange(request, timeout_s, carrier)
        self.give_back(connection, answer)
        return answer

    def take_idle(self) -> Connection | None:
        """Return an open, unused connection, or None. It belongs to the caller until it is given back."""
        while self._idle:
            connection = self._idle.pop()
            if connection.may_be_used(self._keep_alive_s):
                return connection
            connection.abort()
        return None

    async def connect(self) -> Connection:
        """Open and return a new connection. It belongs to the caller until it is given back."""
        return await open_connection(self._endpoint, lambda: Connection(self._all), self._connect_timeout_s)

    def give_back(self, connection: Connection, answer: Answer) -> None:
        """Take back a connection on which this answer came. After a failed request the connection is already closed."""
        if answer.reusable and connection.is_trusted:
            self._idle.append(connection)  # if it was closed meanwhile, `take_idle` finds that
        else:
            connection.abort()
        if self._warm < MOST_WARM and len(self._all) > self._warm:
            self._warm = min(len(self._all), MOST_WARM)
            if self._warming is None:
                self._warming = asyncio.ensure_future(self._stay_warm())

    # --- kept warm ----------------------------------------------------------------------------------------------

    async def _stay_warm(self) -> None:
        while True:
            await asyncio.sleep(self._warm_period_s)
            try:
                await self.warm_up()
            except (TimeoutError, OSError, BadAnswer) as error:
                # The server is away: the next request to it reports that.
                log.debug("no connection kept warm", extra={"err": str(error) or type(error).__name__})

    async def warm_up(self) -> None:
        """Use idle connections before the server closes them, and open missing ones.

        They are used one at a time, so that a burst of requests finds the others free.
        """
        now = asyncio.get_running_loop().time()
        # 1. Drop what nobody will use any more.
        for connection in self._idle[: -self._warm]:
            if connection.last_used <= now - self._keep_alive_s:
                connection.abort()
        self._idle = [connection for connection in self._idle if connection.is_open]
        # 2. Use what the server would close as idle.
        for connection in self._idle[-self._warm :]:
            request = self._ping()
            if request and connection.last_used <= now - self._warm_age_s and connection in self._idle:
                self._idle.remove(connection)
                self.give_back(connection, await connection.exchange(request, WARM_TIMEOUT_S))
        # 3. Open what is missing: the server may have been restarted.
        while len(self._all) < self._warm:
            self._idle.append(await self.connect())

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        if self._warming is not None:
            await cancel_and_wait(self._warming)
        for connection in list(self._all):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # their exchanges fail now


P = TypeVar("P", bound=asyncio.BaseProtocol)


async def open_connection(endpoint: Endpoint, protocol: Callable[[], P], timeout_s: float) -> P:
    """Open a connection straight to the apiserver, without a proxy. Raises TimeoutError if that takes too long.

    If the caller is cancelled at the moment when the connection is made, the connection is closed.
    """
    _, opened = await within(timeout_s, _open(endpoint, protocol), lambda opened: opened[0].abort())
    return opened


async def _open(endpoint: Endpoint, protocol: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    parts = urlsplit(endpoint.host)
    host = parts.hostname or ""
    tls = endpoint.ssl or endpoint.is_tls
    return await asyncio.get_running_loop().create_connection(
        protocol,
        host,
        parts.port or (443 if tls else 80),
        ssl=tls or None,
        server_hostname=(endpoint.server_name or host) if tls else None,
    )


class Connection(asyncio.BufferedProtocol):
    """One TCP or TLS connection.

    It has a small read buffer of its own, because uvloop would otherwise allocate 256 KB for each read of a TLS
    connection.
    """

    def __init__(self, open_ones: set[Connection]) -> None:
        self._open_ones = open_ones
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._on_outcome: OnOutcome | None = None
        self._alarm = Alarm(self._loop, self._timed_out)
        self.last_used = self._loop.time()
        self.is_trusted = True  # to carry another request after this one

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def may_be_used(self, keep_alive_s: float) -> bool:
        """Return True if the connection is open and was last used less than `keep_alive_s` seconds ago."""
        transport = self._transport
        is_open = transport is not None and not transport.is_closing()
        return is_open and self._loop.time() - self.last_used < keep_alive_s

    async def exchange(self, request: bytes, timeout_s: float, carrier: Carrier | None = None) -> Answer:
        """Send a request and return the answer. Any failure, cancellation included, closes the connection."""
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self.send(request, timeout_s, partial(_resolve, waiter), carrier)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.abandon()
            raise

    def send(self, request: bytes, timeout_s: float, on_outcome: OnOutcome, carrier: Carrier | None = None) -> None:
        """Send a request, and call `on_outcome` once from the event loop, with the answer or an error.

        An error closes the connection. `carrier`, if given, records that its request travels on this connection.
        """
        if carrier is not None:
            carrier.take(self)
        self._on_outcome = on_outcome
        transport = self._transport
        if transport is None:
            self._loop.call_soon(self._fail, ConnectionResetError("the connection was closed"))
            return
        self._alarm.set(self._loop.time() + timeout_s)
        transport.write(request)

    def abandon(self) -> None:
        """Close the connection without reporting the outcome of its request."""
        self._finish()
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> OnOutcome | None:
        """Mark the current request as finished, and return the callback that waits for its outcome, if any."""
        on_outcome, self._on_outcome = self._on_outcome, None
        return on_outcome

    def _timed_out(self) -> None:
        if self._on_outcome is not None:  # else it was answered in time, and nothing was asked since
            self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        on_outcome = self._finish()
        self.abort()
        if on_outcome is not None:
            on_outcome(error)

    # --- asyncio.BufferedProtocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._open_ones.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._on_outcome is None:
            self.abort()  # nobody asked
            return
        try:
            answer = self._reader.feed(self._buffer[:nbytes].tobytes())
        except BadAnswer as error:
            self._fail(error)
            return
        if answer is not None:
            self.last_used = self._loop.time()
            on_outcome = self._finish()
            assert on_outcome is not None
            on_outcome(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._alarm.cancel()
        self._open_ones.discard(self)
        if self._on_outcome is None:
            return
        answer = self._reader.end()
        if answer is None:
            cause = "before" if self._reader.is_fresh else "in the middle of"
            self._fail(error or ConnectionResetError(f"the server hung up {cause} its answer"))
        elif (on_outcome := self._finish()) is not None:
            on_outcome(answer)


def _resolve(waiter: asyncio.Future[Answer], outcome: Answer | Exception) -> None:
    if waiter.done():
        return
    if isinstance(outcome, Answer):
        waiter.set_result(outcome)
    else:
        waiter.set_exception(outcome)
