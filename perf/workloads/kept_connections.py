"""Sends a few requests at once, over connections that are kept.

The process that creates many objects takes half a second to start, in which a scheduler could have bound them all.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from perf.workloads.site import Connection

Send = Callable[[Connection], object]

MOST = 10  # connections


class KeptConnections:
    """Up to MOST connections, opened when they are needed. Leaving the context closes them."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="kept-connection")
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> KeptConnections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        self._ends.close()

    def send(self, requests: Sequence[Send]) -> None:
        """Send all requests, and wait for their answers. Raises what one of them raised, once all are answered."""
        under_way = [self._threads.submit(self._send, request) for request in requests]
        errors = [each.exception() for each in under_way]
        if error := next(filter(None, errors), None):
            raise error

    def _send(self, request: Send) -> None:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._ends.enter_context(contextlib.closing(self._connect()))
        try:
            request(connection)
        finally:
            self._idle.put(connection)
