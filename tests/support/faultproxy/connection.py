"""One client connection: its requests in turn, each passed on over a connection of its own to the apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, cast

from tests.support.faultproxy import http1
from tests.support.faultproxy.faults import (
    Answer,
    Cut,
    Drip,
    Freeze,
    Garble,
    Hang,
    Latency,
    RequestFault,
    Reset,
    StreamFault,
)

if TYPE_CHECKING:
    from tests.support.faultproxy.proxy import ActiveFault, FaultProxy

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what is closed is reset
BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, http1.BadMessage, ValueError)


class Ended(Exception):
    """A fault ended the connection."""


class Side(asyncio.StreamReaderProtocol):
    """A stream that says at once when its connection is lost, also while nobody reads.

    It is among `open_sides` as long as its transport is open, also where the task that waited for it was cancelled
    before it got it: then the transport says goodbye by TLS, for half a minute at most, and nobody else knows of it.
    """

    def __init__(self, reader: asyncio.StreamReader, on_lost: Callable[[], None], open_sides: set[Side]) -> None:
        super().__init__(reader)
        self.transport: asyncio.WriteTransport | None = None
        self._on_lost = on_lost
        self._open_sides = open_sides

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's has its methods without being one
        self._open_sides.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_sides.discard(self)
        super().connection_lost(exc)
        self._on_lost()

    def abort(self) -> None:
        """Close the transport without a goodbye."""
        if self.transport is not None:
            self.transport.abort()


class Connection:
    """A client's connection, from its accepted socket to its end."""

    def __init__(self, proxy: FaultProxy, sock: socket.socket, number: int, backend: int) -> None:
        self.number = number
        self.backend = backend
        self.opened_s = time.monotonic()
        self._proxy = proxy
        self._socket = sock
        self._lost = asyncio.Event()
        self._is_idle = True  # between two requests
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._stream: Stream | None = None

    async def serve(self) -> None:
        """Answer requests until the client or a fault ends the connection."""
        try:
            await self._open()
            while (head := await http1.read_head(self._reader)) is not None:
                self._is_idle = False
                await self._exchange(head, await http1.read_body(self._reader, head))
                self._is_idle = True
        except (Ended, *BROKEN):
            self.reset()
        finally:
            self.close()

    def reset(self) -> None:
        """Send a RST at once."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if hasattr(self, "_writer"):
            self._writer.transport.abort()
        else:
            self._socket.close()

    @property
    def is_closed(self) -> bool:
        return self._socket.fileno() == -1

    def drop_socket(self) -> None:
        """Let go of what the transport has left open, when nothing runs any more.

        uvloop may have closed the descriptor and not the socket around it, so it is not closed a second time.
        """
        self._socket.detach()

    def close(self) -> None:
        """Hang up on both sides."""
        self._lost.set()
        self._hang_up_upstream()
        if hasattr(self, "_writer"):
            self._writer.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=http1.LIMIT_BYTES)
        protocol = Side(self._reader, self._client_lost, self._proxy.open_sides)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, self._socket, ssl=self._proxy.server_tls)
        self._writer = asyncio.StreamWriter(transport, protocol, self._reader, loop)

    def _client_lost(self) -> None:
        self._lost.set()
        # A request on its way arrives all the same; a watch, or a connection that waits, ends on both sides.
        if self._stream is not None:
            self._stream.abandon()
        if self._is_idle or self._stream is not None:
            self._hang_up_upstream()

    def _upstream_lost(self) -> None:
        self._upstream = None
        if self._is_idle:
            self._writer.close()

    def _hang_up_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream[1].transport.abort()
            self._upstream = None

    async def _exchange(self, head: http1.Head, body: bytes) -> None:
        """One request: faults before it is passed on, then the answer with the faults on its way back."""
        target = http1.target_of(head.first)
        active = self._proxy.hits(self, target, RequestFault)
        entry = self._proxy.enter(self, target, active)
        began_s = time.monotonic()
        try:
            for one in active:
                await self._before(one.fault)
            if (answer := _answer(active, arrived=False)) is not None:
                entry.answered = answer.status
                await self._send(answer.response())
                return
            reader = await self._forward(head, body)
            response = await http1.read_head(reader)
            if response is None:
                raise http1.BadMessage("the apiserver hung up")
            entry.upstream = response.status
            if target.verb == "watch" and response.is_chunked and not _takes_answer(active):
                entry.answered = response.status
                await self._relay_watch(target, response, reader)
                return
            await self._relay(active, response, reader)
            answer = _answer(active, arrived=True)
            entry.answered = response.status if answer is None else answer.status
        finally:
            entry.seconds = time.monotonic() - began_s

    async def _before(self, fault: object) -> None:
        if isinstance(fault, Latency) and not fault.of_answer:
            await asyncio.sleep(self._proxy.latency_s(fault))
        elif isinstance(fault, Hang) and not fault.arrived:
            await self._hang()
        elif isinstance(fault, Reset) and not fault.arrived:
            raise Ended

    async def _hang(self) -> None:
        await self._lost.wait()
        raise Ended

    async def _forward(self, head: http1.Head, body: bytes) -> asyncio.StreamReader:
        if self._upstream is None:
            self._upstream = await self._connect()
        reader, writer = self._upstream
        writer.write(head.raw + body)
        await writer.drain()
        return reader

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=http1.LIMIT_BYTES)
        protocol = Side(reader, self._upstream_lost, self._proxy.open_sides)
        host, port = self._proxy.upstream
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=self._proxy.client_tls)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _send(self, content: bytes) -> None:
        if self._writer.is_closing():
            raise Ended
        self._writer.write(content)
        await self._writer.drain()

    async def _relay(self, active: list[ActiveFault], head: http1.Head, reader: asyncio.StreamReader) -> None:
        """Pass an answer on, unless a fault takes it: then it is read to its end first, so that it was carried out."""
        lost = [one.fault for one in active if isinstance(one.fault, Hang | Reset | Answer) and one.fault.arrived]
        if lost:
            async for _ in _pieces(head, reader):
                pass
            if isinstance(lost[0], Answer):
                await self._send(lost[0].response())
                return
            if isinstance(lost[0], Hang):
                await self._hang()
            raise Ended
        for one in active:
            if isinstance(one.fault, Latency) and one.fault.of_answer:
                await asyncio.sleep(self._proxy.latency_s(one.fault))
        drip = next((one for one in active if isinstance(one.fault, Drip)), None)
        await self._send_slowly(head.raw, drip)
        async for piece in _pieces(head, reader):
            await self._send_slowly(piece, drip)
        if head.length is None and not head.is_chunked and head.status not in http1.NO_BODY:
            self._writer.close()  # its body ended with the connection, and so does ours

    async def _send_slowly(self, content: bytes, drip: ActiveFault | None) -> None:
        if drip is None or not isinstance(drip.fault, Drip):
            await self._send(content)
            return
        start = 0
        while start < len(content) and not drip.is_over:
            piece = content[start : start + drip.fault.piece_bytes]
            await self._send(piece)
            start += len(piece)
            await asyncio.sleep(drip.fault.pause_s)
        await self._send(content[start:])

    async def _relay_watch(self, target: http1.Target, head: http1.Head, reader: asyncio.StreamReader) -> None:
        await self._send(head.raw)
        self._stream = stream = Stream(self, target, self._writer)
        self._proxy.streams.add(stream)
        try:
            for one in self._proxy.hits(self, target, StreamFault):
                stream.begin(one)
            await stream.relay(reader)
        finally:
            self._proxy.streams.discard(stream)
            self._stream = None


class Stream:
    """An open watch: events pass through `relay`, and faults that begin or end act on it at once."""

    def __init__(self, connection: Connection, target: http1.Target, writer: asyncio.StreamWriter) -> None:
        self.connection = connection
        self.target = target
        self._writer = writer
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._frozen: set[ActiveFault] = set()
        self._garbled: list[ActiveFault] = []
        self._at_line_start = True

    async def relay(self, reader: asyncio.StreamReader) -> None:
        """Pass events on until the watch ends on either side."""
        while True:
            content = await http1.read_chunk(reader)
            await self._thawed.wait()
            for one in self._garbled if content and self._at_line_start else ():
                if isinstance(one.fault, Garble):
                    content = one.fault.spoil(content)
            self._write(content)
            await self._writer.drain()
            if not content:
                return

    def begin(self, active: ActiveFault) -> None:
        """A fault begins, or was there when the watch began."""
        fault = active.fault
        if isinstance(fault, Freeze):
            self._frozen.add(active)
            self._thawed.clear()
        elif isinstance(fault, Cut):
            self._cut(fault)
        elif isinstance(fault, Garble):
            if not fault.ends_watch:
                self._garbled.append(active)
            if self._at_line_start and not self._frozen:
                self._write_bad_line(fault)

    def end(self, active: ActiveFault) -> None:
        """A fault ends."""
        if active in self._garbled:
            self._garbled.remove(active)
        if active in self._frozen and isinstance(active.fault, Freeze):
            if active.fault.then == "reset":
                self.connection.reset()
            if active.fault.then != "stay":
                self._frozen.remove(active)
            if not self._frozen:
                self._thawed.set()

    def abandon(self) -> None:
        """The client has hung up."""
        self._frozen.clear()
        self._thawed.set()

    def _cut(self, fault: Cut) -> None:
        if fault.how == "half_line" and self._at_line_start:
            self._write(b'{"type":"ADDED","object":{"kind":"Pod","metada')
        if fault.how == "reset":
            self.connection.reset()
        else:
            self._write(b"")
            self.connection.close()

    def _write_bad_line(self, fault: Garble) -> None:
        if fault.kind == "bad_chunk":
            self._writer.write(b"zz\r\n{}\n\r\n")
        else:
            self._write(fault.line())
            if fault.ends_watch:
                self._write(b"")
        if fault.ends_watch:
            self.connection.close()

    def _write(self, content: bytes) -> None:
        self._at_line_start = content.endswith(b"\n") or not content
        if not self._writer.is_closing():
            self._writer.write(http1.framed(content))


def _takes_answer(active: list[ActiveFault]) -> bool:
    """Whether a fault takes or delays the answer as a whole, so that a watch does not come to stream."""
    return any(isinstance(one.fault, Hang | Reset | Answer) and one.fault.arrived for one in active)


def _answer(active: list[ActiveFault], *, arrived: bool) -> Answer | None:
    for one in active:
        if isinstance(one.fault, Answer) and one.fault.arrived == arrived:
            return one.fault
    return None


async def _pieces(head: http1.Head, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The body of an answer with its framing, piece by piece."""
    if head.status in http1.NO_BODY:
        return
    if head.is_chunked:
        while chunk := await http1.read_chunk(reader):
            yield http1.framed(chunk)
        yield http1.framed(b"")
        return
    left = head.length
    while left is None or left > 0:
        piece = await reader.read(http1.PIECE_BYTES if left is None else min(left, http1.PIECE_BYTES))
        if not piece:
            if left is None:
                return
            raise http1.BadMessage("the apiserver hung up within an answer")
        left = None if left is None else left - len(piece)
        yield piece
