"""Keep-alive connections for small requests such as bindings and Events.

A connection carries one request at a time, or a few that are sent in one write and answered one after the other
(HTTP/1.1 pipelining). That saves most of what the system and TLS take for a request, and is for those that may be
repeated when they are in doubt and that nobody waits for: when one hangs or ends the connection, so do those behind it.

A tenth of the cost of a general HTTP client, because nothing general is done: no redirects, cookies, compression or
proxies. An exchange can be awaited, or begun with an object that takes the outcome, which costs neither task nor
future. Errors are OSError, asyncio.TimeoutError or BadAnswer; the transport above knows what they mean.

A few connections are kept open even if nothing is requested for long: a new one costs the apiserver several
milliseconds of handshake, and a burst of pods would have to wait for all of these handshakes at once.

What cuts off one connection without a sign, such as a firewall that forgets them, often cuts off others of its age. So
when a request gets no answer, connections that were idle all the while have to answer a ping before they carry another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from kscheduler._fast import read_plain_answer
from kscheduler.client.alarm import Alarm
from kscheduler.client.concurrency import cancel_and_wait, within
from kscheduler.client.credentials import Endpoint
from kscheduler.client.http_answer import Answer, AnswerReader, BadAnswer
from kscheduler.client.joint_reading import JointReading
from kscheduler.client.tls import RenewedContext
from kscheduler.client.write_permission import NOT_BOUND, not_leading

log = logging.getLogger(__name__)

BUFFER_BYTES = 1 << 13  # an answer to a write is half a kilobyte; a longer one comes in pieces
MOST_WARM = 12  # connections; an adaptive limit of writes starts with fewer
# A connection is idle for at most 45 s; common load balancers close one after 60 s. Keeping 12 of them open costs a
# third of a request a second.
WARM_PERIOD_S = 20.0  # from one check of the idle connections to the next
WARM_AGE_S = 25.0  # a connection idle for longer is used
WARM_TIMEOUT_S = 10.0
_NO_ANSWER_YET = 1 << 30  # longer than any answer


class Carrier(msgspec.Struct, eq=False):
    """Records which connection a request is sent on, so that the caller can close it or exclude it from reuse."""

    connection: Connection | None = None
    is_distrusted: bool = False
    is_given_up: bool = False  # not to be sent any more, if it has not been
    may_write: Callable[[], bool] | None = None  # of a binding: asked again if time passes before it is sent

    def refusal(self) -> Exception | None:
        """Return why the request must not be sent any more, asked after time has passed; None if it may be."""
        return None if self.may_write is None or self.may_write() else not_leading(NOT_BOUND)

    def take(self, connection: Connection) -> None:
        self.connection = connection
        connection.is_trusted = not self.is_distrusted

    def distrust(self) -> None:
        """Exclude the request's connection from reuse: its server may hang, and a new one may lead to another."""
        self.is_distrusted = True
        if self.connection is not None:
            self.connection.distrust()

    def abandon(self) -> None:
        """Close the request's connection, because the answer is not needed any more."""
        self.is_given_up = True
        if self.connection is not None:
            self.connection.abandon()


class Exchange(Carrier):
    """A request whose outcome is reported to it once, from the event loop: by `succeeded` or by `ended`."""

    needs_answer: bool = False  # `ended` takes every outcome

    def succeeded(self, status: int, received_bytes: int) -> None:
        """Take a plain 2xx answer of an apiserver, whose body of so many bytes is not read."""
        raise NotImplementedError

    def ended(self, outcome: Answer | Exception) -> None:
        """Take any other answer, or the error that has ended the connection."""
        raise NotImplementedError


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
        self.idle: list[Connection] = []  # used longest ago first
        self.shortest_behind = _NO_ANSWER_YET  # bytes of the shortest plain answer before another one so far
        self._all: set[Connection] = set()
        self._warm = 0  # connections to have ready: as many as there have been at once, up to MOST_WARM
        self._warming: asyncio.Task[None] | None = None
        self._generation = self._newest  # of the client certificate that the connections are opened with

    async def exchange(
        self, request: bytes, timeout_s: float, carrier: Carrier | None = None, *, own_connection: bool = False
    ) -> Answer:
        """Send a complete request and return the complete answer. Raises `carrier`'s refusal, if it has one by then.

        `own_connection`: not on one that has carried another request.
        """
        connection = None if own_connection else self.take_idle()
        if connection is None:
            connection = await self.connect()
            if carrier is not None and (refusal := carrier.refusal()) is not None:
                connection.abort()
                raise refusal
        return await connection.exchange(request, timeout_s, carrier)

    def take_idle(self) -> Connection | None:
        """Return an open, unused connection, or None. It is the caller's until the answer to an exchange on it."""
        idle = self.idle
        while idle:
            connection = idle.pop()
            transport = connection.transport
            if transport is not None and not transport.is_closing():
                if connection.loop.time() - connection.last_used < self._keep_alive_s:
                    return connection
                transport.abort()
        return None

    async def connect(self) -> Connection:
        """Return a new connection, the caller's until the answer to an exchange on it."""
        return await open_connection(self._endpoint, lambda: Connection(self, self._all), self._connect_timeout_s)

    def suspect(self, since_s: float) -> None:
        """Ping the idle connections that were not used since then. They carry no request before they answer.

        For when a request that was sent then gets no answer: else each other connection that is cut off, too, would be
        found by a request that waits for its answer in vain.
        """
        silent = [connection for connection in self.idle if connection.last_used <= since_s]
        if not silent:
            return
        self.idle = [connection for connection in self.idle if connection.last_used > since_s]
        request = self._ping()
        for number, connection in enumerate(reversed(silent)):
            if request and number < self._warm and connection.is_open:
                connection.send(request, WARM_TIMEOUT_S, _Ping())
            else:
                connection.abort()

    def note_answered(self) -> None:
        """Learn from the first answer on a connection how many are used at once, and keep so many of them warm."""
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
        # 1. Drop what nobody will use any more, and what an expired certificate would be refused on.
        if self._generation != self._newest:
            self._generation = self._newest
            for connection in self._all:
                connection.is_trusted = False
            for connection in self.idle:
                connection.abort()
        for connection in self.idle[: -self._warm]:
            if connection.last_used <= now - self._keep_alive_s:
                connection.abort()
        self.idle = [connection for connection in self.idle if connection.is_open]
        # 2. Use what the server would close as idle.
        for connection in self.idle[-self._warm :]:
            request = self._ping()
            if request and connection.last_used <= now - self._warm_age_s and connection in self.idle:
                self.idle.remove(connection)
                await connection.exchange(request, WARM_TIMEOUT_S)
        # 3. Open what is missing: the server may have been restarted. A balancer without servers may close each of them
        # at once, so that there would never be enough.
        for _ in range(self._warm - len(self._all)):
            self.idle.append(await self.connect())

    @property
    def _newest(self) -> int:
        tls = self._endpoint.ssl
        return tls.generation if isinstance(tls, RenewedContext) else 0

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        if self._warming is not None:
            await cancel_and_wait(self._warming)
        for connection in list(self._all):
            connection.abort()
        self.idle.clear()
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

    def __init__(self, pool: ConnectionPool, open_ones: set[Connection]) -> None:
        self._pool = pool
        self._open_ones = open_ones
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._is_in_pieces = False  # an answer, of which the reader has the first ones
        self._data = bytearray(BUFFER_BYTES)
        self._buffer = memoryview(self._data)
        self._exchange: Exchange | None = None
        self._behind: deque[Exchange] = deque()  # those sent together with it, whose answers come after its own
        self._timeout_s = 0.0  # of each of them
        self._joint: JointReading | None = None  # of their answers; None before there were any
        self._alarm = Alarm(self.loop, self._timed_out)
        self._is_new = True  # no exchange was answered yet
        self.last_used = self.asked_s = self.loop.time()  # when it was answered last, and asked
        self.is_trusted = True  # to carry another request after this one

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    async def exchange(self, request: bytes, timeout_s: float, carrier: Carrier | None = None) -> Answer:
        """Send a request and return the answer. Any failure, cancellation included, closes the connection.

        `carrier`, if given, records that its request travels on this connection.
        """
        awaited = _Awaited(needs_answer=True, waiter=self.loop.create_future())
        self.send(request, timeout_s, awaited)
        if carrier is not None:
            carrier.take(self)
        try:
            return await awaited.waiter
        except asyncio.CancelledError:
            if self._exchange is awaited:  # else it was answered at the same time, and may carry another by now
                self.abandon()
            raise

    def send(self, request: bytes, timeout_s: float, exchange: Exchange) -> None:
        """Begin an exchange. An error ends the connection."""
        # As `Carrier.take` and `Alarm.set`, without their calls: it is done for each request.
        exchange.connection = self
        self.is_trusted = not exchange.is_distrusted
        self._exchange = exchange
        transport = self.transport
        if transport is None:
            self.loop.call_soon(self._fail, ConnectionResetError("the connection was closed"))
            return
        alarm = self._alarm
        self.asked_s = now = self.loop.time()
        alarm.at_s = at_s = now + timeout_s
        if at_s < alarm.due_s:
            alarm.arm()
        transport.write(request)

    def send_together(self, request: bytes, timeout_s: float, exchanges: Sequence[Exchange]) -> None:
        """Begin several exchanges with all of their requests in one write; they are answered in this order.

        An error ends the connection, and so all of them that have no answer. Each may take `timeout_s` after the one
        before it.
        """
        self._behind.extend(exchanges[1:])
        self._timeout_s = timeout_s
        self.send(request, timeout_s, exchanges[0])
        is_distrusted = False
        for exchange in exchanges:  # as `Carrier.take`, without its call
            exchange.connection = self
            is_distrusted = is_distrusted or exchange.is_distrusted
        self.is_trusted = not is_distrusted
        shortest = self._pool.shortest_behind
        if self._behind and shortest < _NO_ANSWER_YET and self.transport is not None:
            if self._joint is None:
                self._joint = JointReading(self.loop, self.transport)
            self._joint.begin(len(exchanges) * shortest)

    def distrust(self) -> None:
        """Carry nothing after the request that is overdue, and suspect those that were idle all the while."""
        self.is_trusted = False
        self._pool.suspect(self.asked_s)

    def abandon(self) -> None:
        """Close the connection without reporting the outcome of its request."""
        self._exchange = None
        self._fail(ConnectionAbortedError("the request before it was given up"))

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _timed_out(self) -> None:
        if self._exchange is not None:  # else it was answered in time, and nothing was asked since
            self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        exchange, self._exchange = self._exchange, None
        behind, self._behind = self._behind, deque()
        self.abort()
        for each in behind:  # each by itself: a bug in what comes of one is not to keep others from their outcome
            self.loop.call_soon(each.ended, error)
        if exchange is not None:
            self._pool.suspect(self.asked_s)  # first: what comes of the error may use another connection at once
            exchange.ended(error)

    def _answered(self, exchange: Exchange, answer: Answer) -> None:
        self._exchange = None
        self._is_in_pieces = False
        if self._behind:
            self._go_on_behind(exchange, answer)
            return
        # The server knows who asks by the certificate of the connection: it may know a newer one.
        self._give_back(is_reusable=answer.reusable and answer.status != 401)
        exchange.ended(answer)

    def _go_on_behind(self, exchange: Exchange, answer: Answer) -> None:
        """Report an answer, and go on to that of the next request, of which some may have come with it."""
        if not answer.reusable:
            exchange.ended(answer)
            self._fail(ConnectionResetError("the server closed the connection after the answer before"))
            return
        self._next()
        rest = self._reader.rest
        exchange.ended(answer)
        if rest and self._exchange is not None:
            self._read(self._exchange, rest)

    def _next(self) -> None:
        """Wait for the answer of the next request of those sent together."""
        self._exchange = self._behind.popleft()
        alarm = self._alarm  # as `Alarm.set`, without its call
        alarm.at_s = at_s = self.loop.time() + self._timeout_s
        if at_s < alarm.due_s:
            alarm.arm()

    def _give_back(self, *, is_reusable: bool) -> None:
        """Return to the pool after an answer, before it is reported: what comes of it may use this connection."""
        self.last_used = self.loop.time()
        if is_reusable and self.is_trusted:
            self._pool.idle.append(self)  # if it is closed meanwhile, `take_idle` finds that
        else:
            self.abort()
        if self._is_new:
            self._is_new = False
            self._pool.note_answered()

    # --- asyncio.BufferedProtocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._open_ones.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is None:
            self.abort()  # nobody asked
            return
        if self._joint is not None and self._joint.timer is not None:
            self._joint.end()
        start = 0
        while not (self._is_in_pieces or exchange.needs_answer):
            plain = read_plain_answer(self._data, start, nbytes)
            if plain is None:
                break
            status, length, end = plain
            answer_bytes, start = end - start, end
            if self._behind:
                if answer_bytes < self._pool.shortest_behind:
                    self._pool.shortest_behind = answer_bytes
                self._next()
                exchange.succeeded(status, length)
                exchange = self._exchange
                if exchange is None or start == nbytes:
                    return
                continue
            self._exchange = None
            if start < nbytes or self._is_new or not self.is_trusted:
                self._give_back(is_reusable=start == nbytes)
            else:  # what it does then, without its call
                self.last_used = self.loop.time()
                self._pool.idle.append(self)
            exchange.succeeded(status, length)
            return
        if exchange.needs_answer and not (self._is_in_pieces or self._behind):
            plain = read_plain_answer(self._data, start, nbytes)
            if plain is not None and plain[2] == nbytes:
                status, length, _ = plain
                self._answered(exchange, Answer(status, self._buffer[nbytes - length : nbytes].tobytes(), "", True))
                return
        self._read(exchange, self._buffer[start:nbytes].tobytes())

    def _read(self, exchange: Exchange, data: bytes) -> None:
        """Read an answer that is not plain, or not whole."""
        try:
            answer = self._reader.feed(data, is_last=not self._behind)
        except BadAnswer as error:
            self._fail(error)
            return
        self._is_in_pieces = True
        if answer is not None:
            self._answered(exchange, answer)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._alarm.cancel()
        if self._joint is not None:
            self._joint.end()
        self._open_ones.discard(self)
        exchange = self._exchange
        if exchange is None:
            return
        answer = self._reader.end()
        if answer is None:
            cause = "before" if self._reader.is_fresh else "in the middle of"
            self._fail(error or ConnectionResetError(f"the server hung up {cause} its answer"))
        else:
            self._answered(exchange, answer)


class _Ping(Exchange):
    """A request on a connection that is suspected. If it is answered, the connection is idle again; else it closes."""

    def succeeded(self, status: int, received_bytes: int) -> None: ...

    def ended(self, outcome: Answer | Exception) -> None: ...


class _Awaited(Exchange, kw_only=True):
    """A request and its answer for which a coroutine waits."""

    waiter: asyncio.Future[Answer]

    def ended(self, outcome: Answer | Exception) -> None:
        waiter = self.waiter
        if waiter.done():
            return
        if isinstance(outcome, Answer):
            waiter.set_result(outcome)
        else:
            waiter.set_exception(outcome)
