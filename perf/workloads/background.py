"""Changes a cluster while a workload is measured: objects that come and go at an interval, and pods deleted at a rate.

Each change runs in a thread with a connection of its own, from its place in the workload until the end of the run. An
error in it is kept for `check`, which the run calls while it waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from kscheduler.testing.controlplane import HarnessError, RequestFailed
from perf.workloads.object_template import Object
from perf.workloads.operations import Churn
from perf.workloads.site import Connection


class Background:
    """The background threads of a run. Leaving the context ends them."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._faults: list[Exception] = []

    def __enter__(self) -> Background:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def repeat(self, name: str, step: Callable[[Connection], bool], interval_s: float) -> None:
        """Call `step` every interval until it says there is no more, or the run ends."""
        thread = threading.Thread(target=self._repeat, args=(step, interval_s), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._faults:
            raise HarnessError(f"beside the measured pods: {self._faults[0]}") from self._faults[0]

    def end(self) -> None:
        """Let nothing go on, and wait until it does not."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, step: Callable[[Connection], bool], interval_s: float) -> None:
        try:
            with contextlib.closing(self._connect()) as api:
                due = time.monotonic() + interval_s
                # A step that comes late does not make up for what was left out.
                while not self._ended.wait(max(0.0, due - time.monotonic())) and step(api):
                    due = max(due + interval_s, time.monotonic())
        except Exception as error:  # for the run, which asks
            if not self._ended.is_set():
                self._faults.append(error)


class Churning:
    """Creates one object of each template per step and, with mode `recreate`, deletes them in the next step."""

    def __init__(self, operation: Churn, sources: Sequence[tuple[str, Object]]) -> None:
        self._operation = operation
        self._sources = sources  # path of the collection, template
        slots = operation.number if operation.mode == "recreate" else 0
        self._alive: list[list[str]] = [[""] * slots for _ in sources]  # names, "" where there is none
        self._steps = 0
        self.created = 0

    def step(self, api: Connection) -> bool:
        """One interval's part; False when that was the last."""
        for source, alive in zip(self._sources, self._alive, strict=True):
            path, template = source
            if alive:
                self._create_or_delete(api, path, template, alive)
            else:
                self._create(api, path, template)
        self._steps += 1
        return bool(self._alive[0]) or not self._operation.number or self._steps < self._operation.number

    def _create_or_delete(self, api: Connection, path: str, template: Object, alive: list[str]) -> None:
        slot = self._steps % len(alive)
        if alive[slot]:
            delete(api, f"{path}/{alive[slot]}")
            alive[slot] = ""
        else:
            alive[slot] = self._create(api, path, template)

    def _create(self, api: Connection, path: str, template: Object) -> str:
        self.created += 1
        return str(api.create(path, template)["metadata"]["name"])


class Deleting:
    """Deletes one pod per step."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._left = list(reversed(paths))

    def step(self, api: Connection) -> bool:
        """Delete one; False when that was the last."""
        if self._left:
            delete(api, self._left.pop())
        return bool(self._left)


class Updating:
    """Replaces one object per step by a new version, with changes in its status or other parts."""

    def __init__(self, path: str, objects: Sequence[Object], subresources: Sequence[str] = ()) -> None:
        self._path = path
        self._parts = list(subresources) or ["", "status"]
        self._left = list(reversed(objects))

    def step(self, api: Connection) -> bool:
        """Replace one; False when that was the last."""
        if self._left:
            made = self._left.pop()
            for part in self._parts:
                api.replace(f"{self._path}/{made['metadata']['name']}{'/' + part if part else ''}", made)
        return bool(self._left)


def delete(api: Connection, path: str) -> None:
    """Delete with the object's own grace period; what is gone already is no fault."""
    try:
        api.request("DELETE", path)
    except RequestFailed as error:
        if error.status != 404:
            raise
