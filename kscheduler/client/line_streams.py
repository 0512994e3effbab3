"""Streams of the lines of watches, which return lines in the batches in which they arrived.

A reader asks for the next batch, or has each handed over as it is read.

Ordinarily on a connection of our own, which costs a few microseconds a batch; behind a proxy on aiohttp's. Both end
after a silence beyond a limit. Errors are OSError, TimeoutError, BadAnswer, aiohttp's own, or
`Silent`; the transport above knows what they mean.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import aiohttp

from kscheduler.client.http_answer import Answer, BadAnswer
from kscheduler.client.http_lines import LineReader

log = logging.getLogger(__name__)

# A dead peer is found after 10 + 3 * 5 s, also on a watch that has nothing to say.
_TCP_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
# A watch that ended sooner and brought nothing is none of an apiserver: the shortest that we ask for lasts 3 s.
_SHORTEST_S = 2.0
_BUFFER_BYTES = 1 << 17  # what one look at a busy watch brings: some dozens of events
_QUEUE_BYTES = 1 << 22  # beyond it the apiserver has to wait for us


class Silent(Exception):
    """Nothing arrived on a watch for the longest time allowed."""

    def __init__(self, idle_s: float) -> None:
        super().__init__(f"silent for {idle_s:.0f} s")


class LineStream(ABC):
    """The lines of one watch. One timer checks for silence when the limit may be reached, instead of one per batch."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_s = float("inf")
        self._last_s = self._loop.time()  # when something was heard
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle_s(self) -> float:
        """The longest silence allowed in seconds, counted from when it is set; it may be changed while reading."""
        return self._idle_s

    @idle_s.setter
    def idle_s(self, seconds: float) -> None:
        if self._timer is None:
            self._last_s = self._loop.time()
        self._idle_s = seconds
        self._stop_guard()
        self._look()

    @abstractmethod
    async def next_lines(self) -> list[bytes] | None:
        """Wait for lines and return those that have come, without line ends; None when the watch has ended."""

    async def hand_over(self, take: Callable[[list[bytes]], None]) -> None:
        """Call `take` with all that `next_lines` would return, and return when the watch has ended.

        What `take` raises is raised here, and nothing more is handed over.
        """
        while (lines := await self.next_lines()) is not None:
            take(lines)

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _went_silent(self) -> None: ...

    def _heard(self) -> None:
        self._last_s = self._loop.time()

    def _stop_guard(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        left_s = self._last_s + self._idle_s - self._loop.time()
        if left_s <= 0.0:
            self._went_silent()
        else:
            self._timer = self._loop.call_later(left_s, self._look)


class _NotAsked(LineReader):
    """What reads a connection on which nobody has asked for anything."""

    def feed(self, data: bytes) -> list[bytes]:
        raise BadAnswer(f"an answer that nobody has asked for: {data[:20]!r}")


class LineConnection(LineStream, asyncio.BufferedProtocol):
    """A TCP or TLS connection that carries watches, one after the other."""

    def __init__(self, keep: Callable[[LineConnection], object] | None = None) -> None:
        """`keep` is called in place of closing the connection, after a watch that ended well."""
        super().__init__()
        self._keep = keep
        self.opened_s = self._loop.time()
        self.heard_s = self.opened_s  # when a line arrived last, or it was opened
        self.asked_s = self.opened_s  # when the watch was asked for that it carries
        self._has_heard = False  # lines of that watch
        self._transport: asyncio.Transport | None = None
        self._reader = LineReader()
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._take: Callable[[list[bytes]], None] | None = None  # takes lines as they are read
        self._lines: list[bytes] = []  # read, and not handed over
        self._queued = 0  # bytes of them
        self._error: Exception | None = None
        self._woken: asyncio.Future[None] | None = None  # somebody waits for anything to happen

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, timeout_s: float) -> Answer | None:
        """Send the request of a watch. Returns None if the apiserver accepts it, else its refusal."""
        if isinstance(self._reader, _NotAsked):
            self._reader = LineReader()
        self.asked_s, self._has_heard = self._loop.time(), False
        if self._transport is not None:
            self._transport.write(request)
        timer = self._loop.call_later(timeout_s, self._fail, TimeoutError())
        try:
            while not self._reader.status:
                if self._reader.refusal is not None:
                    return self._reader.refusal
                if self._error is not None:
                    raise self._error
                await self._wait()
        finally:
            timer.cancel()
        return None

    async def next_lines(self) -> list[bytes] | None:
        while not self._lines:
            if self._reader.is_over:
                return None
            if self._error is not None:
                raise self._error
            # As `_wait`, without its coroutine: this is waited for at each event of a quiet cluster.
            self._woken = self._loop.create_future()
            try:
                await self._woken
            finally:
                self._woken = None
        lines, self._lines = self._lines, []
        self._resume()
        return lines

    async def hand_over(self, take: Callable[[list[bytes]], None]) -> None:
        """Call `take` as the base class does, but from where lines are read: no task is resumed for them."""
        if self._lines:
            lines, self._lines = self._lines, []
            self._resume()
            take(lines)
        self._take = take
        try:
            while not self._reader.is_over:
                if self._error is not None:
                    raise self._error
                await self._wait()
        finally:
            self._take = None

    def close(self) -> None:
        """End the watch, and the connection unless it may carry another one."""
        self._stop_guard()
        has_ended_well = self._reader.is_reusable and self._error is None and not self._lines
        if self._keep is not None and has_ended_well and self._was_watch and self.is_open:
            self._reset()
            self._keep(self)
        else:
            self.abort()

    @property
    def _was_watch(self) -> bool:
        """False if what ended was empty and over at once: behind a balancer, another server may do better."""
        return self._has_heard or self._loop.time() - self.asked_s >= _SHORTEST_S

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()  # no TLS farewell to a server that may be gone

    def _reset(self) -> None:
        """Forget the watch that has ended, and be ready for the next one."""
        self._reader = _NotAsked()
        self._take = None
        self._queued = 0
        self._idle_s = float("inf")
        self._timer = None

    async def _wait(self) -> None:
        self._woken = self._loop.create_future()
        try:
            await self._woken
        finally:
            self._woken = None

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _went_silent(self) -> None:
        self._fail(Silent(self.idle_s))

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._take = None
        self._stop_guard()
        self.abort()
        self._wake()

    def _resume(self) -> None:
        transport = self._transport
        if self._queued > _QUEUE_BYTES and transport is not None and not transport.is_closing():
            transport.resume_reading()
        self._queued = 0

    # --- asyncio.BufferedProtocol -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        keep_alive(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._last_s = self._loop.time()
        take = self._take
        try:
            lines = self._reader.feed(self._buffer[:nbytes].tobytes())
            if lines:
                self.heard_s, self._has_heard = self._last_s, True
                if take is not None:
                    take(lines)
        except Exception as error:  # a bad answer, or whatever `take` raises: it is raised where the watch is awaited
            self._fail(error)
            return
        if take is not None:
            if self._reader.is_over:
                self._wake()
            elif nbytes == _BUFFER_BYTES:
                self._let_others_run()
            return
        self._lines += lines
        was = self._queued
        self._queued += nbytes
        if was <= _QUEUE_BYTES < self._queued and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def _let_others_run(self) -> None:
        """Read on in the next turn of the loop: a busy watch fills the buffer several times in one turn."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self._reader.end() and self._error is None:
            self._error = error or ConnectionResetError("the server hung up in the middle of its answer")
        self._wake()


class ProxiedLines(LineStream):
    """One watch read by aiohttp, for a connection through a proxy."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        super().__init__()
        self._response = response
        self._silent = False
        self._tail: list[bytes] = []  # the pieces of a line whose end has not come yet
        # The response forgets it at its end.
        self._connection = response.connection
        if (connection := self._connection) is not None:
            if connection.transport is not None:
                keep_alive(connection.transport)
            if connection.protocol is not None:
                connection.protocol.read_timeout = None  # was for the headers
                connection.protocol.start_timeout()  # ends the one that runs

    async def next_lines(self) -> list[bytes] | None:
        lines: list[bytes] = []
        while not lines:
            try:
                chunk = await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                if self._silent:
                    raise Silent(self.idle_s) from error
                raise
            if self._silent:
                raise Silent(self.idle_s)
            if not chunk:
                return None
            self._heard()
            lines = self._split(chunk)
        return lines

    def _split(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail = []
        if last := lines.pop():
            self._tail.append(last)
        return lines

    def close(self) -> None:
        self._stop_guard()
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.abort()
        self._response.close()

    def _went_silent(self) -> None:
        self._silent = True
        self._response.close()


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Turn on TCP keepalive for a connection, as far as the platform has the options."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, seconds in _TCP_KEEPALIVE:
            if (option := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
    except OSError as error:
        log.debug("TCP keepalive could not be set", extra={"err": str(error)})
