"""Mirrors a collection of the test apiserver by a watch, so that tests can wait for what a scheduler does with it.

Several mirrors share one condition variable, so that one wait may depend on, for example, pods and Events.
"""

from __future__ import annotations

import threading
import urllib.parse

import msgspec

from kscheduler.testing.controlplane.api import Api, Object
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kubeconfig import Credentials
from kscheduler.testing.controlplane.watch_thread import WatchThread


class Mirror(WatchThread):
    """Keeps the objects of one path, such as /api/v1/pods, of all namespaces, up to date in a thread.

    With `keeps_gone` it also keeps the last state of each object whose deletion the watch has reported.
    """

    def __init__(
        self, credentials: Credentials, path: str, changed: threading.Condition, *, keeps_gone: bool = False
    ) -> None:
        super().__init__(credentials, f"mirror {path}")
        self._api = Api(credentials)
        self._path = path
        self._changed = changed  # notified at each change; held while objects are read
        self._objects: dict[str, Object] = {}  # uid -> object
        self._keeps_gone = keeps_gone
        self._gone: dict[str, list[Object]] = {}  # namespace -> deleted objects

    def objects(self, namespace: str | None = None) -> list[Object]:
        """Return the objects as last seen, of one namespace or of all, oldest first."""
        with self._changed:
            return [each for each in self._objects.values() if namespace in (None, each["metadata"].get("namespace"))]

    def gone(self, namespace: str) -> list[Object]:
        """Return the deleted objects of a namespace as they last were, the first deleted first."""
        with self._changed:
            return list(self._gone.get(namespace, ()))

    def get(self, name: str, namespace: str | None = None) -> Object | None:
        """Return an object as last seen, or None."""
        return next((each for each in self.objects(namespace) if each["metadata"]["name"] == name), None)

    def open(self) -> None:
        """List the objects, which makes up for missed events, then watch from there."""
        page = self._api.get(self._path)
        query = urllib.parse.urlencode({"watch": "true", "resourceVersion": page["metadata"]["resourceVersion"]})
        self.connect(f"{self._path}?{query}")
        with self._changed:
            self._objects = {each["metadata"]["uid"]: each for each in page["items"]}
            self._changed.notify_all()

    def note(self, line: bytes) -> None:
        event = msgspec.json.decode(line)
        found = event["object"]
        if event["type"] == "ERROR":
            raise HarnessError(str(found.get("message")))
        with self._changed:
            if event["type"] == "DELETED":
                self._objects.pop(found["metadata"]["uid"], None)
                if self._keeps_gone:
                    self._gone.setdefault(found["metadata"].get("namespace", ""), []).append(found)
            else:
                self._objects[found["metadata"]["uid"]] = found
            self._changed.notify_all()
