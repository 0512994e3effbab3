"""Watches pods being bound, independently of the scheduler: which pod was bound when, as the apiserver reports it.

The watch requests metadata only, to cost the apiserver little. A pod counts once, at the first event in which it has a
node.
"""

from __future__ import annotations

import math
import threading
import time
import urllib.parse
from collections.abc import Callable

import msgspec

from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.patience import Patience, notified
from kscheduler.testing.controlplane.watch_thread import WatchThread

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    message: str = ""


class _Event(msgspec.Struct):
    type: str
    object: _Object


class BindWatch(WatchThread):
    """Counts the pods of a namespace, or of all, that have a node when the watch begins or get one later."""

    def __init__(self, credentials: Credentials, namespace: str | None = None) -> None:
        super().__init__(credentials, "bind-watch")
        where = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._path = f"{where}?watch=true&fieldSelector={urllib.parse.quote('spec.nodeName!=')}"
        self._decode: Callable[[bytes], _Event] = msgspec.json.Decoder(_Event).decode
        self._changed = threading.Condition()
        self._bound_at_s: dict[str, float] = {}  # pod uid -> time.monotonic() of its first event with a node

    @property
    def count(self) -> int:
        """The number of pods bound so far."""
        return len(self._bound_at_s)

    def times_s(self) -> list[float]:
        """Return when each pod was first seen bound, by time.monotonic(), in order."""
        with self._changed:
            return list(self._bound_at_s.values())

    def wait(self, count: int, timeout_s: float = math.inf) -> None:
        """Wait until `count` pods are bound. Raises HarnessError if there is no more activity, or after `timeout_s`.

        Only a benchmark sets `timeout_s`: a scheduler that takes longer has failed it.
        """
        began_s = time.monotonic()

        def is_over() -> bool:
            if time.monotonic() - began_s > timeout_s:
                raise HarnessError(f"{self._progress()}, expected {count} within {timeout_s:.0f} s")
            return self.count >= count

        notified(self._changed, is_over, Patience(f"{count} pods are bound", self._progress))

    def _progress(self) -> str:
        return f"{self.count} pods were bound" + (f"; last fault: {self.fault}" if self.fault else "")

    def open(self) -> None:
        """Open a watch from the start: the apiserver first sends all pods that have a node, so that none is missed."""
        self.connect(self._path, {"Accept": METADATA_ONLY})

    def note(self, line: bytes) -> None:
        now_s = time.monotonic()
        event = self._decode(line)
        if event.type == "ERROR":
            raise HarnessError(event.object.message)
        with self._changed:
            if event.object.metadata.uid not in self._bound_at_s:
                self._bound_at_s[event.object.metadata.uid] = now_s
                self._changed.notify_all()
