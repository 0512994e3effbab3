"""Sends requests to one apiserver, opens streams from it, and translates every error.

Every answer that is not 2xx becomes an error of the `APIError` family with the message of its metav1.Status; every
broken connection becomes Unreachable. After a 401 the credentials are read again and the request is tried once more.
Small writes, which are nearly all requests, and watches use connections of our own; lists, and everything behind a
proxy, use aiohttp. This module knows HTTP but no Kubernetes objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiohttp
from aiohttp.client import _RequestContextManager
from msgspec import structs
from yarl import URL

from kscheduler.api.decode import APIStatus
from kscheduler.client import protobuf
from kscheduler.client.bounded_body import BodyTooLong, read_bounded
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.connections import Carrier, ConnectionPool, Exchange, open_connection
from kscheduler.client.credentials import Credentials
from kscheduler.client.foreign_bodies import kind_of_foreign
from kscheduler.client.http_answer import Answer, BadAnswer
from kscheduler.client.line_streams import LineConnection, LineStream, ProxiedLines, Silent
from kscheduler.client.request_observer import NoObserver, RequestObserver
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.slots import Slot, Slots
from kscheduler.client.watch_connections import LONGEST_UNHEARD_S, WatchConnections
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict, DecodeError, Forbidden, Gone, NotFound, TooManyRequests, Unreachable
from kscheduler.input.decoding import json_decoder

log = logging.getLogger(__name__)

JSON = "application/json"
CONNECT_TIMEOUT_S = 10.0
MOST_TOGETHER = 8  # requests on one connection: a server that hangs on one lets so few others wait

# Nobody who asks for more time means it: kube-apiserver asks for 1 to 60 s. What waits is a whole watch, or a Lease.
LONGEST_RETRY_AFTER_S = 300

# The server closes idle connections after 90 s or more; we close first, so that no request meets a closing one.
KEEPALIVE_S = 60.0
# What can happen to a stream.
_BROKEN = (aiohttp.ClientError, asyncio.TimeoutError, OSError, BadAnswer, Silent)


class Transport:
    """Sends requests to one apiserver over pools of keep-alive connections."""

    def __init__(
        self,
        credentials: Credentials,
        clock: Clock,
        *,
        observer: RequestObserver | None = None,
        pauses: RetryPauses | None = None,
        user_agent: str = "kscheduler",
    ) -> None:
        """`pauses` is shown each request that was carried out."""
        self.credentials = credentials
        self._endpoint = credentials.endpoint
        self.host = credentials.endpoint.authority  # the apiserver's host and port
        self._prefix = credentials.endpoint.path
        self.is_direct = credentials.endpoint.proxy is None  # and not closed
        self.clock = clock
        self.observer = observer or NoObserver()
        self.pauses = pauses
        self._user_agent = user_agent
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # whether each request has a connection of its own
        self._pool: ConnectionPool | None = None
        self._after_watches = WatchConnections()
        self._opening: set[asyncio.Task[None]] = set()  # connections for requests that were sent without waiting
        self._fixed_heads: dict[tuple[str, str, str], str] = {}  # Authorization, Content-Type, Accept -> header lines
        self._closed = False

    async def request(
        self,
        verb: str,
        path: str,
        *,
        timeout_s: float,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        limit_bytes: int = 0,
        carrier: Carrier | None = None,
        own_connection: bool = False,
    ) -> bytes:
        """Send a request and return the body of its 2xx answer. `path` is percent-encoded and may have a query.

        A GET's answer that is longer than `limit_bytes` is not read to its end, and raises APIError. With
        `own_connection` it is sent on a new connection, which a load balancer may lead to another server.
        """
        credentials = self.credentials
        for is_last in (False, True):
            header = credentials.header
            if credentials.stale:
                header = await credentials.authorization()
                if carrier is not None and (refusal := carrier.refusal()) is not None:
                    raise refusal
            answer = await self._exchange(
                verb, path, header, timeout_s, body, content_type, accept, limit_bytes, carrier, own_connection
            )
            if answer.status < 300:
                if body is not None and answer.body and not answer.body.startswith(_OF_APISERVER):
                    raise self._unreachable(verb, path, _not_of_apiserver(answer.body))
                return answer.body
            if answer.status != 401 or is_last or not await credentials.refused(header):
                raise self._status_error(verb, path, answer)
        raise AssertionError("the second answer was returned or raised")

    async def date(self, path: str, *, timeout_s: float) -> str:
        """Return the Date header of the answer to a GET, whatever its status; "" if there is none.

        Raises Unreachable.
        """
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._ask(
                "GET", path, timeout, _headers(await self.credentials.authorization(), JSON)
            ) as response:
                return response.headers.get("Date", "")
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise self._unreachable("GET", path, error) from None

    # --- without waiting ----------------------------------------------------------------------------------------

    @property
    def sends(self) -> bool:
        """True if `send` can be used now: not behind a proxy, and not while the token has to be read again."""
        return self.is_direct and self.clock.now() < self.credentials.fresh_until

    def send(self, sent: Sent, body: bytes, content_type: str, accept: str, timeout_s: float) -> None:
        """Begin a POST of whose answer only the status matters. A 401 is an answer like another."""
        if self._closed:
            asyncio.get_running_loop().call_soon(sent.answered, self._is_closed())
            return
        header = self.credentials.header
        fixed = self._fixed_heads.get((header, content_type, accept)) or self._fix(header, content_type, accept)
        head = f"POST {self._prefix}{sent.path} HTTP/1.1\r\n{fixed}Content-Length: {len(body)}\r\n\r\n"
        sent.transport, sent.sent_bytes, sent.start_s = self, len(body), self.clock.now()
        connection = (self._pool or self._open_pool()).take_idle()
        if connection is not None:
            connection.send(head.encode("latin-1") + body, timeout_s, sent)
            return
        self._open_for(head.encode("latin-1") + body, timeout_s, [sent])

    def send_together(
        self, requests: Sequence[tuple[Sent, bytes]], content_type: str, accept: str, timeout_s: float
    ) -> None:
        """Begin POSTs as `send` does, each with its body, but up to MOST_TOGETHER in one write on one connection.

        They are answered one after the other.
        """
        header = self.credentials.header
        fixed = self._fixed_heads.get((header, content_type, accept)) or self._fix(header, content_type, accept)
        parts: list[bytes] = []
        exchanges, now = [], self.clock.now()
        for sent, body in requests:
            head = f"POST {self._prefix}{sent.path} HTTP/1.1\r\n{fixed}Content-Length: {len(body)}\r\n\r\n"
            sent.transport, sent.sent_bytes, sent.start_s = self, len(body), now
            parts += head.encode("latin-1"), body
            exchanges.append(sent)
        request = b"".join(parts)
        connection = None if self._closed else (self._pool or self._open_pool()).take_idle()
        if connection is not None:
            connection.send_together(request, timeout_s, exchanges)
        else:
            self._open_for(request, timeout_s, exchanges)

    def _open_for(self, request: bytes, timeout_s: float, exchanges: Sequence[Exchange]) -> None:
        def has_opened(task: asyncio.Task[None]) -> None:
            self._opening.discard(task)
            if task.cancelled():  # perhaps before it began
                for exchange in exchanges:
                    exchange.ended(ConnectionAbortedError("the client was closed"))

        task = asyncio.ensure_future(self._send_on_new(request, timeout_s, exchanges))
        self._opening.add(task)
        task.add_done_callback(has_opened)

    async def _send_on_new(self, request: bytes, timeout_s: float, exchanges: Sequence[Exchange]) -> None:
        try:
            connection = await self._open_pool().connect()
        except Exception as error:  # a host name that is none, too: the caller must get an answer
            for exchange in exchanges:
                exchange.ended(error)
            return
        if len(exchanges) > 1:
            connection.send_together(request, timeout_s, exchanges)
        elif exchanges[0].is_given_up:
            connection.abort()
        elif (refusal := exchanges[0].refusal()) is not None:
            connection.abort()
            exchanges[0].ended(refusal)
        else:
            connection.send(request, timeout_s, exchanges[0])

    def error_of(self, sent: Sent, outcome: Answer | Exception) -> APIError | None:
        """Record the outcome of a request, and return what is wrong with it."""
        took_s = self.clock.now() - sent.start_s
        if not isinstance(outcome, Answer):
            self._observe("POST", "<error>", took_s, sent.sent_bytes, None)
            if isinstance(outcome, APIError):  # it was not sent
                return outcome
            return self._unreachable("POST", sent.path, outcome)
        body = outcome.body
        self._observe("POST", str(outcome.status), took_s, sent.sent_bytes, len(body))
        if outcome.status >= 300:
            return self._status_error("POST", sent.path, outcome)
        if body and not body.startswith(_OF_APISERVER):
            return self._unreachable("POST", sent.path, _not_of_apiserver(body))
        return None

    # --- awaited ------------------------------------------------------------------------------------------------

    async def _exchange(
        self,
        verb: str,
        path: str,
        header: str,
        timeout_s: float,
        body: bytes | None,
        content_type: str,
        accept: str,
        limit_bytes: int = 0,
        carrier: Carrier | None = None,
        own_connection: bool = False,
    ) -> Answer:
        """Send one request and return its answer. Raises Unreachable if there is none."""
        start = self.clock.now()
        code = "<error>"
        received_bytes: int | None = None
        try:
            if body is not None and self._endpoint.proxy is None:
                request = self._head(verb, path, header, content_type, accept, len(body)) + body
                pool = self._open_pool() if self._closed or self._pool is None else self._pool
                answer = await pool.exchange(request, timeout_s, carrier, own_connection=own_connection)
            else:
                timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
                headers = _headers(header, accept, content_type if body is not None else "")
                async with self._ask(verb, path, timeout, headers, body, own_connection) as response:
                    retry_after = response.headers.get("Retry-After", "")
                    content = await read_bounded(response, limit_bytes) if limit_bytes else await response.read()
                    answer = Answer(response.status, content, retry_after, True)
            code = str(answer.status)
            received_bytes = len(answer.body)
            return answer
        except BodyTooLong as error:
            raise APIError(f"{verb} {path.partition('?')[0]}: {error}") from error
        except (TimeoutError, aiohttp.ClientError, OSError, BadAnswer) as error:
            raise self._unreachable(verb, path, error) from None
        finally:
            took_s = self.clock.now() - start
            self._observe(verb, code, took_s, len(body or b""), received_bytes)

    def _head(self, verb: str, path: str, header: str, content_type: str, accept: str, length: int | None) -> bytes:
        """Return a request up to its body, or all of a request without one."""
        fixed = self._fixed_heads.get((header, content_type, accept)) or self._fix(header, content_type, accept)
        path = self._prefix + path
        if length is None:
            return f"{verb} {path} HTTP/1.1\r\n{fixed}\r\n".encode("latin-1")
        return f"{verb} {path} HTTP/1.1\r\n{fixed}Content-Length: {length}\r\n\r\n".encode("latin-1")

    def _fix(self, header: str, content_type: str, accept: str) -> str:
        """Return the header lines that seldom change, and keep them."""
        if len(self._fixed_heads) > 32:  # old tokens
            self._fixed_heads.clear()
        lines = {"Host": self.host, "User-Agent": self._user_agent, **_headers(header, accept, content_type)}
        fixed = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._fixed_heads[header, content_type, accept] = fixed
        return fixed

    def _observe(
        self, verb: str, code: str, took_s: float, sent_bytes: int | None = None, received_bytes: int | None = None
    ) -> None:
        if self.pauses is not None and code[0] == "2":
            self.pauses.succeeded()
        self.observer.observe(verb, self.host, code, took_s, sent_bytes, received_bytes)

    # --- streams ------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, path: str, stream: LineStream) -> Iterator[None]:
        """Turn every error that breaks an open stream into Unreachable, and close the stream at the end."""
        try:
            yield
        except _BROKEN as error:
            raise self._unreachable("WATCH", path, error) from None
        finally:
            stream.close()

    async def open_stream(self, path: str, *, timeout_s: float, unheard_s: float = LONGEST_UNHEARD_S) -> LineStream:
        """Open a stream whose status is 2xx; its lines are then read inside the context `reading`.

        `timeout_s` limits first the connection and then the wait for headers; later the stream checks for silence
        itself. It may follow another stream on a connection that has been silent for less than `unheard_s`; with 0, it
        has a new one.
        """
        credentials = self.credentials
        for is_last in (False, True):
            header = await credentials.authorization() if credentials.stale else credentials.header
            start = self.clock.now()
            code = "<error>"
            try:
                if self._endpoint.proxy is None:
                    stream, status, refusal = await self._begin_stream(path, header, timeout_s, unheard_s)
                else:
                    stream, status, refusal = await self._begin_proxied_stream(path, header, timeout_s)
                code = str(status)
            except _BROKEN as error:
                raise self._unreachable("WATCH", path, error) from None
            finally:
                self._observe("GET", code, self.clock.now() - start)
            if refusal is None:
                return stream
            if refusal.status != 401 or is_last or not await credentials.refused(header):
                raise self._status_error("WATCH", path, refusal)
        raise AssertionError("the second answer was returned or raised")

    async def _begin_stream(
        self, path: str, header: str, timeout_s: float, unheard_s: float
    ) -> tuple[LineStream, int, Answer | None]:
        """Open a stream, and return it with its HTTP status and, if that is not 2xx, the refusal."""
        self._check_open()
        request = self._head("GET", path, header, "", JSON, None)
        connection = self._after_watches.take(unheard_s)
        if connection is not None:
            try:
                return await self._ask_for_stream(connection, request, timeout_s)
            except ConnectionError as error:  # the server closed it while nobody used it
                log.debug("a kept connection was closed", extra={"err": str(error)})
        connection = await open_connection(self._endpoint, self._line_connection, min(timeout_s, CONNECT_TIMEOUT_S))
        return await self._ask_for_stream(connection, request, timeout_s)

    def _line_connection(self) -> LineConnection:
        return LineConnection(self._after_watches.keep)

    async def _ask_for_stream(
        self, connection: LineConnection, request: bytes, timeout_s: float
    ) -> tuple[LineStream, int, Answer | None]:
        try:
            refusal = await connection.ask(request, timeout_s)
        except BaseException:
            connection.abort()
            raise
        if refusal is None:
            return connection, 200, None
        connection.abort()
        return connection, refusal.status, refusal

    async def _begin_proxied_stream(
        self, path: str, header: str, timeout_s: float
    ) -> tuple[LineStream, int, Answer | None]:
        timeout = aiohttp.ClientTimeout(sock_connect=min(timeout_s, CONNECT_TIMEOUT_S), sock_read=timeout_s)
        response = await self._ask("GET", path, timeout, _headers(header, JSON))
        if response.status < 300:
            return ProxiedLines(response), response.status, None
        retry_after = response.headers.get("Retry-After", "")
        refusal = Answer(response.status, await response.read(), retry_after, False)
        return ProxiedLines(response), response.status, refusal

    async def close(self) -> None:
        self._closed = True
        self.is_direct = False
        await cancel_and_wait(*self._opening)
        self._after_watches.close()
        if self._pool is not None:
            await self._pool.close()
        while self._sessions:
            await self._sessions.popitem()[1].close()
        # Sockets are closed in the turns of the loop that follow an abort.
        for _ in range(3):
            await asyncio.sleep(0)

    # --- what carries them --------------------------------------------------------------------------------------

    def _ask(
        self,
        verb: str,
        path: str,
        timeout: aiohttp.ClientTimeout,
        headers: dict[str, str],
        body: bytes | None = None,
        own_connection: bool = False,
    ) -> _RequestContextManager:
        proxy = self._endpoint.proxy
        return self._open_session(own_connection).request(
            verb,
            URL(self._endpoint.host + path, encoded=True),
            data=body,
            headers=headers,
            timeout=timeout,
            server_hostname=self._endpoint.server_name,
            proxy=None if proxy is None else proxy.reveal(),
            allow_redirects=False,
        )

    def _open_session(self, own_connection: bool) -> aiohttp.ClientSession:
        """Return the aiohttp session, which is created on first use because it belongs to the running loop."""
        self._check_open()
        session = self._sessions.get(own_connection)
        if session is None:
            kept: dict[str, Any] = {"force_close": True} if own_connection else {"keepalive_timeout": KEEPALIVE_S}
            # Without Accept-Encoding the server does not compress lists: that costs it more than the bytes save.
            session = self._sessions[own_connection] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._endpoint.ssl or True, limit=0, **kept),
                headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 20,
            )
        return session

    def _open_pool(self) -> ConnectionPool:
        self._check_open()
        if self._pool is None:
            self._pool = ConnectionPool(
                self._endpoint, connect_timeout_s=CONNECT_TIMEOUT_S, keep_alive_s=KEEPALIVE_S, ping=self._ping
            )
        return self._pool

    def _ping(self) -> bytes:
        """Return the cheapest request, or empty bytes while the token has to be read again."""
        credentials = self.credentials
        return b"" if credentials.stale else self._head("GET", "/version", credentials.header, "", JSON, None)

    def _check_open(self) -> None:
        if self._closed:
            raise self._is_closed()

    def _is_closed(self) -> Unreachable:
        return Unreachable(f"apiserver {self._endpoint.host}: the client is closed")

    def hide_in(self, text: str) -> str:
        """Return a text of a server, a proxy or a library with our credentials removed."""
        if self._endpoint.proxy is not None:
            text = self._endpoint.proxy.hide_in(text)
        return self.credentials.hide_in(text)

    def watch_error(self, path: str, status: APIStatus) -> APIError:
        """Return the error for an ERROR event of a watch."""
        return _error("WATCH", path, status.code or 500, status, None, self.hide_in)

    def _status_error(self, verb: str, path: str, answer: Answer) -> APIError:
        return status_error(verb, path, answer.status, answer.body, answer.retry_after, self.hide_in)

    def _unreachable(self, verb: str, path: str, error: BaseException) -> Unreachable:
        """Return an Unreachable. Raise it from None: `error` may hold secrets, which a traceback would show."""
        text = "timed out" if isinstance(error, asyncio.TimeoutError) else str(error) or type(error).__name__
        cause = self.hide_in(text)
        return Unreachable(f"apiserver {self._endpoint.host}: {verb} {path.partition('?')[0]}: {cause}", cause=cause)


class Sent(Exchange, kw_only=True):
    """A request that was sent without waiting: the slot that it holds, and whom its answer is reported to."""

    slots: Slots
    slot: Slot
    path: str
    on_answer: Callable[[APIError | None], None]
    has_ended: bool = False
    # Once it is sent:
    transport: Transport | None = None
    sent_bytes: int = 0
    start_s: float = 0.0

    def succeeded(self, status: int, received_bytes: int) -> None:
        # As `Transport.error_of` and `answered`, without their calls: nearly all requests end here.
        transport = self.transport
        assert transport is not None
        pauses = transport.pauses
        if pauses is not None:
            if pauses.sleepers:
                pauses.succeeded()
            else:
                pauses.successes += 1
        code = "201" if status == 201 else str(status)
        took_s = transport.clock.now() - self.start_s
        transport.observer.observe("POST", transport.host, code, took_s, self.sent_bytes, received_bytes)
        self.has_ended = True
        self.slots.ended(self.slot, None)
        self.on_answer(None)

    def ended(self, outcome: Answer | Exception) -> None:
        assert self.transport is not None
        self.answered(self.transport.error_of(self, outcome))

    def answered(self, error: APIError | None) -> None:
        """Take what is wrong with the answer: end the slot and pass it on."""
        if self.has_ended:  # given up while its connection was opened, and that failed
            return
        self.has_ended = True
        self.slots.ended(self.slot, error)
        self.on_answer(error)

    def give_up(self) -> None:
        """Abandon a hanging request, so that it does not count as overdue until it times out."""
        if not self.has_ended:
            self.has_ended = True
            self.abandon()
            self.slots.drop(self.slot)


# How an apiserver's body begins, if it has one; the page of a balancer knows nothing of the write.
_OF_APISERVER = (protobuf.MAGIC, b"{")


def _not_of_apiserver(body: bytes) -> BadAnswer:
    kind = kind_of_foreign(body) or "something else"
    return BadAnswer(f"expected an apiserver's answer to a write, as JSON or protobuf, got a success with {kind}")


def _headers(authorization: str, accept: str, content_type: str = "") -> dict[str, str]:
    headers = {"Accept": accept}
    if authorization:
        headers["Authorization"] = authorization
    if content_type:
        headers["Content-Type"] = content_type
    return headers


# --- errors -----------------------------------------------------------------------------------------------------

_ERRORS: dict[int, type[APIError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


_decode_status = json_decoder(APIStatus, as_go=True)
_READ_OF_PAGE, _SHOWN_OF_PAGE = 1 << 14, 200  # bytes, characters


Hide = Callable[[str], str]  # a text of the server's -> the same without our credentials


def status_error(verb: str, path: str, code: int, body: bytes, retry_after: str = "", hide: Hide = str) -> APIError:
    """Return the error for an HTTP status, with the message of the body's metav1.Status (JSON or protobuf)."""
    status = _read_status(body, hide)
    if 300 <= code < 400 and not status.message:
        status = structs.replace(status, message="a redirect, which no apiserver sends, and which is not followed")
    retry_after_s = float(retry_after) if retry_after.isdecimal() else None  # it may also be a date: nobody sends that
    if retry_after_s is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after_s = float(min(status.details.retry_after_seconds, LONGEST_RETRY_AFTER_S))
    return _error(verb, path, code, status, retry_after_s and min(retry_after_s, LONGEST_RETRY_AFTER_S), hide)


def _error(verb: str, path: str, code: int, status: APIStatus, retry_after_s: float | None, hide: Hide) -> APIError:
    reason, message = hide(status.reason), hide(status.message)
    words = (f"{verb} {path.partition('?')[0]}", f"{code} {reason}".rstrip(), message)
    text = ": ".join(word for word in words if word)
    error = _ERRORS.get(code, APIError)
    return error(text, status=code, reason=reason, retry_after_s=retry_after_s, explanation=message)


def _read_status(body: bytes, hide: Hide) -> APIStatus:
    try:
        return protobuf.decode_status(body) if body.startswith(protobuf.MAGIC) else _decode_status(body)
    except (ValueError, DecodeError):  # a proxy's page, or nothing
        page = body[:_READ_OF_PAGE].decode(errors="replace")
        return APIStatus(message=hide(page)[:_SHOWN_OF_PAGE].strip())  # hidden first: half a token is too much as well
