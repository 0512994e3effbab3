"""An apiserver's double on a port of its own, which carries out certain bindings and then loses the answer.

It passes bytes on between two TLS connections and knows of HTTP only the first line of a request for such a binding.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
from types import TracebackType
from urllib.parse import urlsplit

from kscheduler.testing.controlplane.certificates import KeyPair
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.patience import eventually

CHUNK = 1 << 16


class LossyProxy:
    """`with LossyProxy(...) as proxy:` listens on `proxy.url`. Each binding of a pod `name` is lost once."""

    def __init__(self, upstream: Credentials, serving: KeyPair, port: int, name: str) -> None:
        """`serving` is the certificate to show. A client certificate of `upstream` is shown for all who come."""
        address = urlsplit(upstream.server)
        self._upstream = (address.hostname or "", address.port or 443)
        self._port = port
        self.url = f"https://127.0.0.1:{port}"
        self.lost: set[bytes] = set()  # request lines whose answers were lost
        self._line = re.compile(rb"POST /api/v1/namespaces/[^/ ]+/pods/" + re.escape(name).encode() + rb"/binding")
        self._client_tls = upstream.ssl_context()
        self._server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_tls.load_cert_chain(serving.public, serving.key)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lossy-proxy", daemon=True)

    def __enter__(self) -> LossyProxy:
        self._thread.start()
        eventually(self._listening.is_set, "the proxy listens")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._connection(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", self._port, ssl=self._server_tls)
        self._listening.set()
        await self._stop.wait()
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until either side ends, or an answer is to be lost."""
        with contextlib.suppress(OSError):
            up_reader, up_writer = await asyncio.open_connection(*self._upstream, ssl=self._client_tls)
            losing = asyncio.Event()
            pumps = [
                asyncio.ensure_future(self._requests(reader, up_writer, losing)),
                asyncio.ensure_future(_answers(up_reader, writer, losing)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                up_writer.transport.abort()
        writer.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event
    ) -> None:
        while chunk := await reader.read(CHUNK):
            line = self._line.search(chunk)
            if line is not None and line.group() not in self.lost:
                self.lost.add(line.group())
                losing.set()
            writer.write(chunk)
            await writer.drain()


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event) -> None:
    while chunk := await reader.read(CHUNK):
        if losing.is_set():
            return
        writer.write(chunk)
        await writer.drain()
