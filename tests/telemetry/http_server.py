"""A loopback HTTP server that does what a test asks of it with each connection: answer, drip, hang, lie."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Serve = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    verb: str
    target: str
    headers: dict[str, str]  # lower case name -> value
    body: bytes


@dataclass
class Server:
    url: str
    serve: Serve
    requests: list[Request] = field(default_factory=list)


@asynccontextmanager
async def http_server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server("", serve)
    busy: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            request = await _read_request(reader)
            server.requests.append(request)
            await server.serve(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            busy.discard(task)
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in list(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    verb, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(verb, target, headers, body)


def answering(body: bytes | Any, status: int = 200, headers: str = "") -> Serve:
    """`body` as it is, or a document."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(content)}\r\nConnection: close\r\n{headers}\r\n"
        writer.write(head.encode() + content)
        await writer.drain()

    return serve


async def hanging(request: Request, writer: asyncio.StreamWriter) -> None:
    """Accepts, and never answers."""
    await asyncio.Event().wait()


async def dripping(request: Request, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, so that the connection always looks alive."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def flooding(request: Request, writer: asyncio.StreamWriter) -> None:
    """An answer without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def vanishing(request: Request, writer: asyncio.StreamWriter) -> None:
    """Half of what it promises, and then nothing."""
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"status": "succ')
    await writer.drain()


def saying(raw: bytes) -> Serve:
    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return serve
