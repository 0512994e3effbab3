"""Every state that pods, nodes and leases ever had: etcd's own revisions, noted on a thread while they are made.

The apiserver must store JSON (`STORED_AS_JSON`). The history goes back to the first revision that etcd has not
compacted, and ends with whatever came before `__exit__`.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.parse
from dataclasses import dataclass
from types import TracebackType
from typing import Any

STORED_AS_JSON = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
PREFIXES = {"/registry/pods/": "pod", "/registry/minions/": "node", "/registry/leases/": "lease"}

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One object's state from one revision on."""

    revision: int
    at_unix_s: float  # when it was noted, a few milliseconds after it was made
    kind: str  # pod, node or lease
    key: str  # namespace/name, or a node's name
    object: Object | None  # None when it was deleted


class History:
    """Notes changes from `__enter__` to `__exit__`."""

    def __init__(self, etcd_url: str) -> None:
        address = urllib.parse.urlsplit(etcd_url)
        self._host, self._port = address.hostname or "", address.port or 0
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._current: dict[str, dict[str, Object]] = {kind: {} for kind in PREFIXES.values()}
        self._connections: list[http.client.HTTPConnection] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> History:
        for prefix, kind in PREFIXES.items():
            connection = http.client.HTTPConnection(self._host, self._port)
            end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
            wanted = {"key": _encoded(prefix), "range_end": _encoded(end), "start_revision": "1"}
            connection.request("POST", "/v3/watch", json.dumps({"create_request": wanted}))
            self._connections.append(connection)
            thread = threading.Thread(target=self._read, args=(connection, prefix, kind), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def changes(self) -> list[Change]:
        """All noted so far, by revision."""
        with self._lock:
            return sorted(self._changes, key=lambda change: change.revision)

    def current(self, kind: str) -> dict[str, Object]:
        """The objects of a kind as they are now, by key."""
        with self._lock:
            return dict(self._current[kind])

    def _read(self, connection: http.client.HTTPConnection, prefix: str, kind: str) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):  # __exit__ hangs up
            response = connection.getresponse()
            while line := response.readline():
                now_s = time.time()
                events = json.loads(line).get("result", {}).get("events", ())
                self._note([_change(event, prefix, kind, now_s) for event in events])

    def _note(self, changes: list[Change]) -> None:
        with self._lock:
            self._changes += changes
            for change in changes:
                self._current[change.kind].pop(change.key, None)
                if change.object is not None:
                    self._current[change.kind][change.key] = change.object


def _change(event: Object, prefix: str, kind: str, now_s: float) -> Change:
    pair, is_deleted = event["kv"], event.get("type") == "DELETE"
    key = base64.b64decode(pair["key"]).decode()[len(prefix) :]
    stored = None if is_deleted else json.loads(base64.b64decode(pair["value"]))
    return Change(int(pair["mod_revision"]), now_s, kind, key, stored)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
