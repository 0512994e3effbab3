"""Servers of guests, honest and otherwise, that say byte for byte what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager


class Request:
    def __init__(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.path = lines[0].split(" ")[1]
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


class Server:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = Request(await reader.readuntil(b"\r\n\r\n"))
            self.requests.append(request)
            await self.answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()


def whole(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer; `content_length="9"` says something else than the truth, "" nothing."""
    fields = {"content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def saying(*parts: bytes, pause_s: float = 0.0, holding: bool = False) -> Answer:
    """`holding`: the connection stays open after the last part."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if holding:
            await asyncio.sleep(60)

    return answer


def by_path(answers: Mapping[str, bytes]) -> Answer:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.get(request.path, whole(b"", "404 Not Found")))
        await writer.drain()

    return answer
