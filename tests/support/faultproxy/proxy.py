"""The proxy itself: a listening port, the faults that are on, and a journal of every request."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import ssl
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import uvloop

from kscheduler.testing.controlplane.certificates import CertificateAuthority, KeyPair
from kscheduler.testing.controlplane.kubeconfig import Credentials, write_kubeconfig
from kscheduler.testing.controlplane.ports import free_port
from tests.support.faultproxy.connection import Connection, Side, Stream
from tests.support.faultproxy.faults import (
    ConnectionFault,
    Fault,
    Latency,
    Refuse,
    Silent,
    StreamFault,
)
from tests.support.faultproxy.http1 import Target

TURNS_TO_CLOSE = 20
BACKLOG = 512
T = TypeVar("T")


@dataclass(slots=True)
class Exchange:
    """A request as the proxy saw it."""

    at_unix_s: float
    connection: int
    backend: int
    verb: str
    resource: str
    namespace: str
    name: str
    faults: tuple[str, ...]  # kinds that hit it
    upstream: int | None = None  # the apiserver's status; None when it was not asked or did not answer
    answered: int | None = None  # the status the client got; None when none
    seconds: float | None = None  # until the end of the answer; None while it lasts


class ActiveFault:
    """A fault that was added: what it hit, and how to end it. As a context manager it ends with its block."""

    def __init__(self, proxy: FaultProxy, fault: Fault) -> None:
        self.fault = fault
        self.hits = 0  # requests, watches and connections
        self._seen: Counter[Target] = Counter()  # requests that it would hit
        self.began_unix_s = time.time()
        self.ended_unix_s: float | None = None
        self._began_s = time.monotonic()
        self._proxy = proxy

    def __enter__(self) -> ActiveFault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def is_over(self) -> bool:
        """Whether it was removed."""
        return self.ended_unix_s is not None

    def remove(self) -> None:
        """End the fault; nothing when it has ended."""
        self._proxy.remove(self)

    def is_turn(self, target: Target) -> bool:
        """Count a request for the target, and say whether it is one of those of its object that are meant."""
        number = self._seen[target]
        self._seen[target] += 1
        return self.fault.begin <= number and (self.fault.end is None or number < self.fault.end)

    def hit(self, connection: Connection, number: float) -> bool:
        """Count a hit unless the connection is not one of those meant, the share is missed or the limit reached."""
        fault = self.fault
        if fault.backend is not None and connection.backend != fault.backend:
            return False
        if fault.old_connections and connection.opened_s >= self._began_s:
            return False
        if number >= fault.share or (fault.limit is not None and self.hits >= fault.limit):
            return False
        self.hits += 1
        return True


class FaultProxy:
    """A proxy in front of `upstream`, on a thread of its own from `__enter__` to `__exit__`."""

    def __init__(
        self,
        upstream: str,  # https://127.0.0.1:PORT
        authority: CertificateAuthority,  # signs the proxy's certificate, and vouches for the apiserver's
        *,
        name: str = "fault-proxy",
        backends: int = 1,
        seed: int = 0,  # of shares and jitter
        client: KeyPair | None = None,  # shown to the apiserver for all who come: certificates do not pass a proxy
    ) -> None:
        address = urllib.parse.urlsplit(upstream)
        self.upstream = (address.hostname or "", address.port or 443)
        self.name = name
        self._authority = authority
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.journal: list[Exchange] = []
        self.streams: set[Stream] = set()  # open watches
        self.open_sides: set[Side] = set()
        self._backends = backends
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._active: list[ActiveFault] = []
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._leaving: list[Connection] = []  # served to their end, and not closed yet
        self._listener: socket.socket | None = None
        pair = authority.server(name)
        self.server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server_tls.load_cert_chain(pair.public, pair.key)
        self.server_tls.set_alpn_protocols(["http/1.1"])
        self.client_tls = ssl.create_default_context(cafile=str(authority.path))
        self.client_tls.set_alpn_protocols(["http/1.1"])
        if client is not None:
            self.client_tls.load_cert_chain(client.public, client.key)
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._call(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig that reaches the apiserver through the proxy with this bearer token."""
        return write_kubeconfig(path, Credentials(self.url, self._authority.path, token=token))

    def add(self, fault: Fault, *, for_s: float | None = None) -> ActiveFault:
        """Begin a fault; it acts when this returns, and ends after `for_s` or when it is removed."""

        def begin() -> ActiveFault:
            active = ActiveFault(self, fault)
            self._active.append(active)
            self._begin(active)
            if for_s is not None:
                self._loop.call_later(for_s, self._remove, active)
            return active

        return self._call(begin)

    def remove(self, active: ActiveFault) -> None:
        """End a fault; nothing when it has ended."""
        self._call(lambda: self._remove(active))

    def clear(self) -> None:
        """End every fault."""
        for active in list(self._active):
            self.remove(active)

    # What follows runs on the proxy's own thread.

    def hits(self, connection: Connection, target: Target, kind: type[Fault]) -> list[ActiveFault]:
        """The faults of a kind that hit a request for the target on the connection; they are counted."""
        return [
            active
            for active in self._active
            if isinstance(active.fault, kind)
            and active.fault.matches(target)
            and active.is_turn(target)
            and active.hit(connection, self._random.random())
        ]

    def enter(self, connection: Connection, target: Target, active: list[ActiveFault]) -> Exchange:
        """Begin a request's entry in the journal."""
        kinds = tuple(type(one.fault).__name__ for one in active)
        entry = Exchange(
            time.time(),
            connection.number,
            connection.backend,
            target.verb,
            target.resource,
            target.namespace,
            target.name,
            kinds,
        )
        self.journal.append(entry)
        return entry

    def latency_s(self, fault: Latency) -> float:
        """How long a request is delayed."""
        return fault.seconds + fault.jitter_s * self._random.random()

    def _begin(self, active: ActiveFault) -> None:
        fault = active.fault
        if isinstance(fault, StreamFault):
            for stream in list(self.streams):
                if fault.matches(stream.target) and active.hit(stream.connection, self._random.random()):
                    stream.begin(active)
        elif isinstance(fault, Refuse):
            if _refuses_all(fault):
                self._close_listener()
            for connection in list(self._connections) if fault.open_ones else ():
                if active.hit(connection, self._random.random()):
                    connection.reset()

    def _remove(self, active: ActiveFault) -> None:
        if active not in self._active:
            return
        self._active.remove(active)
        active.ended_unix_s = time.time()
        if isinstance(active.fault, StreamFault):
            for stream in list(self.streams):
                stream.end(active)
        if self._listener is None and not any(_refuses_all(one.fault) for one in self._active):
            self._listen()

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener, self._accept, listener)

    def _close_listener(self) -> None:
        if self._listener is None:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        """Take one connection. Without a task: cancelling one would lose the socket that it has just got."""
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        sock.setblocking(False)
        number = next(self._numbers)
        connection = Connection(self, sock, number, number % self._backends)
        self._connections[connection] = self._loop.create_task(self._serve(connection))

    async def _serve(self, connection: Connection) -> None:
        try:
            for active in [one for one in self._active if isinstance(one.fault, ConnectionFault)]:
                if active.hit(connection, self._random.random()):
                    if isinstance(active.fault, Silent):
                        await asyncio.Event().wait()  # to the end of the proxy: the client gives up first
                    connection.reset()
                    return
            await connection.serve()
        finally:
            del self._connections[connection]
            # One that says goodbye by TLS waits for the client's goodbye, for half a minute at most.
            self._leaving = [one for one in self._leaving if not one.is_closed]
            if not connection.is_closed:
                self._leaving.append(connection)

    async def _end(self) -> None:
        self._close_listener()
        tasks = list(self._connections.values())
        connections = [*self._connections, *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in connections:
            connection.reset()
        for side in list(self.open_sides):
            side.abort()
        # A transport closes its socket some turns of the loop after it was aborted, one in a handshake perhaps never.
        for _ in range(TURNS_TO_CLOSE):
            if not self.open_sides and all(connection.is_closed for connection in connections):
                break
            await asyncio.sleep(0)
        for connection in connections:
            connection.drop_socket()

    def _call(self, function: Callable[[], T]) -> T:
        """Run a function on the proxy's thread, and wait for it."""
        if threading.current_thread() is self._thread:
            return function()
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # handed to the caller
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()


def _refuses_all(fault: Fault) -> bool:
    return isinstance(fault, Refuse) and fault.backend is None and fault.share >= 1 and fault.limit is None
