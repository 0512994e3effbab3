"""A minimal apiserver for perf.wire: it accepts every object created, and its watches deliver the events requested.

    python -m perf.wire_server DIRECTORY     # with server.crt and server.key in it, or --plain

Its answers are as long as an apiserver's. It prints its port and serves until its standard input is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, urlsplit

import uvloop

from perf import wire_events

_STATUS = (
    b"k8s\x00\n\x0c\n\x02v1\x12\x06Status\x12\x13\n\x06\n\x00\x12\x00\x1a\x00\x12\x07Success0\xc9\x01\x1a\x00\x22\x00"
)
_CREATED = (
    b"HTTP/1.1 201 Created\r\n"
    b"Audit-Id: 5f1dd7e5-0ab0-4d9e-8a25-9b5e4c6a7f11\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/vnd.kubernetes.protobuf\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 6b0a5e9c-4f2e-4a51-8b8c-1d0d3d9b7a21\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0c9f7d53-6f0d-4d5a-9d51-0a7a2c1d6f45\r\n"
    b"Date: Fri, 02 Jan 2026 03:04:05 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_STATUS), _STATUS)
)
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class Answerer(asyncio.Protocol):
    """Handles one connection: answers a POST as soon as its body has arrived."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            target = self._buffer.split(b" ", 2)[1].decode()
            self._buffer = self._buffer[end + 4 + length :]
            if head.startswith(b"get"):
                self._watch(target)
            elif self._delay_s:
                asyncio.get_running_loop().call_later(self._delay_s, self._write, _CREATED)
            else:
                self._transport.write(_CREATED)

    def _write(self, data: bytes) -> None:
        self._transport.write(data)

    def _watch(self, target: str) -> None:
        """A chunk for each event; the field selector says which kind and how many, `kind,count,objects`."""
        kind, count, objects = parse_qs(urlsplit(target).query)["fieldSelector"][0].split(",")
        self._transport.write(_STREAM)
        many = int(objects)
        for number in range(int(count)):
            line = wire_events.line(kind, number % many, 1_000_000 + number)
            self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))
        self._transport.write(b"0\r\n\r\n")


async def serve(context: ssl.SSLContext | None, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answerer(delay_s), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="perf.wire_server", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--plain", action="store_true", help="without TLS")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    context = None
    if not options.plain:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.directory / "server.crt", options.directory / "server.key")
    loop = uvloop.new_event_loop()
    loop.run_until_complete(serve(context, options.delay))
    return 0


if __name__ == "__main__":
    sys.exit(main())
