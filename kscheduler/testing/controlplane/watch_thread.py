"""Watches the test apiserver in a thread, and opens the watch again whenever it ends.

A loaded apiserver drops a watch that reads too slowly, and one that is killed drops all. Like api.py, this is not the
client under test and shares no code with it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.parse
from typing import Self

from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials

CONNECT_TIMEOUT_S = 10.0
REOPEN_PERIOD_S = 0.1


class WatchThread:
    """Watches from `__enter__` to `__exit__`. A subclass implements `open`, which calls `connect`, and `note`."""

    def __init__(self, credentials: Credentials, name: str) -> None:
        self._credentials = credentials
        self._ending = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self.fault: str | None = None  # why the watch ended last

    def open(self) -> None:
        """Open the watch, such that no event since the last one is missed."""
        raise NotImplementedError

    def note(self, line: bytes) -> None:
        """Handle one event of the watch. Raises HarnessError for an event of type ERROR."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):  # the apiserver may have been killed
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def connect(self, path: str, headers: dict[str, str] | None = None) -> None:
        """Send the watch request and check the status. Raises HarnessError for any status but 200."""
        address = urllib.parse.urlsplit(self._credentials.server)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._credentials.ssl_context(), timeout=CONNECT_TIMEOUT_S
        )
        connection.request("GET", path, headers={**self._credentials.headers(), **(headers or {})})
        self._response = connection.getresponse()
        if self._response.status != 200:
            raise HarnessError(f"watch of {path}: HTTP {self._response.status}: {self._response.read(500)!r}")
        connection.sock.settimeout(None)
        self._connection = connection

    def _follow(self) -> None:
        while not self._ending.is_set():
            try:
                while line := self._response.readline():
                    self.note(line)
                self.fault = "the apiserver closed the watch"
            except (OSError, ValueError, http.client.HTTPException, HarnessError) as error:
                self.fault = str(error)
            self._reopen()

    def _reopen(self) -> None:
        while not self._ending.wait(REOPEN_PERIOD_S):
            if self._connection is not None:
                self._connection.close()
            try:
                self.open()
            except (OSError, http.client.HTTPException, HarnessError) as error:
                self.fault = str(error)
            else:
                return
