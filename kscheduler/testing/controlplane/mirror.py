"""A collection of the test apiserver as it is now, kept by a watch, with waiting for what a scheduler makes of it.

Several mirrors share one condition variable, so that a wait may ask about pods and Events at once. Like api.py this is
not the client under test and shares no code with it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.parse
from types import TracebackType
from typing import Any

import msgspec

from kscheduler.testing.controlplane.api import Api, Object
from kscheduler.testing.controlplane.faults import HarnessError, RequestFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials

CONNECT_TIMEOUT_S = 10.0
REOPEN_PERIOD_S = 0.1


class Mirror:
    """The objects of one path, such as /api/v1/pods, of all namespaces. It follows from `__enter__` to `__exit__`."""

    def __init__(self, credentials: Credentials, path: str, changed: threading.Condition) -> None:
        self._credentials = credentials
        self._api = Api(credentials)
        self._path = path
        self._changed = changed  # notified at each change; held while objects are read
        self._objects: dict[str, Object] = {}  # uid -> object
        self._ending = threading.Event()
        self._fault: str | None = None
        self._connection: http.client.HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._follow, name=f"mirror {path}", daemon=True)

    def __enter__(self) -> Mirror:
        self._open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        self._hang_up()
        self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def objects(self, namespace: str | None = None) -> list[Object]:
        """The objects as last heard of, of one namespace or of all, oldest first."""
        with self._changed:
            return [each for each in self._objects.values() if namespace in (None, each["metadata"].get("namespace"))]

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        """One object as last heard of, or None."""
        return next((each for each in self.objects(namespace) if each["metadata"]["name"] == name), None)

    def _open(self) -> None:
        """List, so that what was missed is made good, then watch from there."""
        page = self._api.get(self._path)
        query = urllib.parse.urlencode({"watch": "true", "resourceVersion": page["metadata"]["resourceVersion"]})
        address = urllib.parse.urlsplit(self._credentials.server)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._credentials.ssl_context(), timeout=CONNECT_TIMEOUT_S
        )
        connection.request("GET", f"{self._path}?{query}", headers=self._credentials.headers())
        self._response = connection.getresponse()
        if self._response.status != 200:
            raise HarnessError(f"watch of {self._path}: HTTP {self._response.status}: {self._response.read(500)!r}")
        connection.sock.settimeout(None)
        self._connection = connection
        with self._changed:
            self._objects = {each["metadata"]["uid"]: each for each in page["items"]}
            self._changed.notify_all()

    def _follow(self) -> None:
        while not self._ending.is_set():
            try:
                while line := self._response.readline():
                    self._note(msgspec.json.decode(line))
            except (OSError, ValueError, http.client.HTTPException, HarnessError) as error:
                self._fault = str(error)
            self._reopen()

    def _reopen(self) -> None:
        while not self._ending.wait(REOPEN_PERIOD_S):
            if self._connection is not None:
                self._connection.close()
            try:
                self._open()
            except (OSError, http.client.HTTPException, HarnessError, RequestFailed) as error:
                self._fault = str(error)
            else:
                return

    def _note(self, event: Any) -> None:
        if event["type"] == "ERROR":
            raise HarnessError(str(event["object"].get("message")))
        found = event["object"]
        with self._changed:
            if event["type"] == "DELETED":
                self._objects.pop(found["metadata"]["uid"], None)
            else:
                self._objects[found["metadata"]["uid"]] = found
            self._changed.notify_all()

    def _hang_up(self) -> None:
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
