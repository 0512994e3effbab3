"""Watches pods being bound, from beside the scheduler: who was bound when, as the apiserver tells it.

The watch carries metadata only, so that it costs the apiserver little. It runs on a thread from `__enter__` to
`__exit__`; a pod counts once, at the first event in which it has a node.
"""

from __future__ import annotations

import contextlib
import http.client
import math
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from types import TracebackType

import msgspec

from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.patience import Patience, notified

CONNECT_TIMEOUT_S = 10.0
REOPEN_PERIOD_S = 0.1

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    message: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    message: str = ""


class _Event(msgspec.Struct):
    type: str
    object: _Object


class BindWatch:
    """Counts the pods of a namespace, or of all, that got a node since the watch began or had one then."""

    def __init__(self, credentials: Credentials, namespace: str | None = None) -> None:
        where = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._path = f"{where}?watch=true&fieldSelector={urllib.parse.quote('spec.nodeName!=')}"
        self._headers = {"Accept": METADATA_ONLY, **credentials.headers()}
        self._credentials = credentials
        self._ending = threading.Event()
        self._decode: Callable[[bytes], _Event] = msgspec.json.Decoder(_Event).decode
        self._changed = threading.Condition()
        self._bound_at_s: dict[str, float] = {}  # pod uid -> time.monotonic() of its first event with a node
        self._names: dict[str, str] = {}  # pod uid -> namespace/name
        self._fault: str | None = None
        self._thread = threading.Thread(target=self._read, name="bind-watch", daemon=True)

    def __enter__(self) -> BindWatch:
        self._open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # the apiserver may have been killed
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    @property
    def count(self) -> int:
        """The number of pods bound so far."""
        return len(self._bound_at_s)

    def times_s(self) -> list[float]:
        """When each pod was seen bound, by time.monotonic(), in order."""
        with self._changed:
            return list(self._bound_at_s.values())

    def times_by_pod(self) -> dict[str, float]:
        """namespace/name -> time.monotonic() at which it was seen bound."""
        with self._changed:
            return {self._names[uid]: at for uid, at in self._bound_at_s.items()}

    def wait(self, count: int, timeout_s: float = math.inf) -> None:
        """Wait until so many pods are bound; HarnessError when none is bound any more and nothing else moves.

        A benchmark may also set a limit, in seconds: a scheduler that needs longer has failed it.
        """
        began_s = time.monotonic()

        def is_over() -> bool:
            if time.monotonic() - began_s > timeout_s:
                raise HarnessError(f"{self._progress()}, expected {count} within {timeout_s:.0f} s")
            return self.count >= count

        notified(self._changed, is_over, Patience(f"{count} pods are bound", self._progress))

    def _progress(self) -> str:
        return f"{self.count} pods were bound" + (f"; last fault: {self._fault}" if self._fault else "")

    def _open(self) -> None:
        address = urllib.parse.urlsplit(self._credentials.server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._credentials.ssl_context(), timeout=CONNECT_TIMEOUT_S
        )
        self._connection.request("GET", self._path, headers=self._headers)
        self._response = self._connection.getresponse()
        if self._response.status != 200:
            raise HarnessError(f"watch of pods: HTTP {self._response.status}: {self._response.read(500)!r}")
        self._connection.sock.settimeout(None)

    def _read(self) -> None:
        """Read until the end is asked for. A loaded apiserver drops a watch that reads too slowly, and one that is
        killed drops all: a new watch begins with every pod that has a node, so nothing is missed.
        """
        while not self._ending.is_set():
            try:
                while line := self._response.readline():
                    self._note(self._decode(line), time.monotonic())
                self._fault = "the apiserver closed the watch"
            except (OSError, ValueError, http.client.HTTPException, HarnessError) as error:
                self._fault = str(error)
            self._reopen()

    def _reopen(self) -> None:
        while not self._ending.wait(REOPEN_PERIOD_S):
            self._connection.close()
            try:
                self._open()
            except (OSError, http.client.HTTPException, HarnessError) as error:
                self._fault = str(error)
            else:
                return

    def _note(self, event: _Event, now_s: float) -> None:
        if event.type == "ERROR":
            raise HarnessError(event.object.message)
        pod = event.object.metadata
        with self._changed:
            if pod.uid not in self._bound_at_s:
                self._bound_at_s[pod.uid] = now_s
                self._names[pod.uid] = f"{pod.namespace}/{pod.name}"
                self._changed.notify_all()
