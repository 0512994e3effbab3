"""What the measured pods took: from the first request that created them to the last binding, seen from beside.

The CPU of scheduler and apiserver is that of the same time. Pods of the measured namespaces that had a node before do
not count.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from perf.control_plane_run import Peer
from tests.controlplane.harness import BindWatch, ControlPlane, HarnessError
from tests.controlplane.harness.load import Created

CHECK_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class Collected:
    """Figures of one measurement."""

    pods: int
    seconds: float
    created_per_s: float  # how fast the pods came; 0.0 when others than the measuring step created them
    behind_s: float  # from the last pod that came to the last binding; how a slow load is told from a slow scheduler
    scheduler_cpu_s: float
    apiserver_cpu_s: float
    peak_memory_bytes: int


class Collection:
    """One measurement; a context, since it watches."""

    def __init__(self, control_plane: ControlPlane, peer: Peer, namespaces: Sequence[str]) -> None:
        self._apiserver = control_plane.apiserver.process
        self._scheduler = peer.process
        self._watches = {name: BindWatch(control_plane.credentials, name) for name in namespaces}
        self._before = {name: _bound(control_plane, name) for name in namespaces}
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Collection:
        for watch in self._watches.values():
            self._ends.enter_context(watch)
        self._started_s = time.monotonic()
        self._scheduler_before = self._scheduler.usage()
        self._apiserver_before = self._apiserver.usage()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ends.close()

    def wait(self, namespace: str, count: int, timeout_s: float, check: Callable[[], None]) -> None:
        """Wait for so many measured pods of a namespace."""
        wait_bound(self._watches[namespace], count + len(self._before[namespace]), timeout_s, check)

    def finish(self, created: Created | None = None) -> Collected:
        """The figures until now; pods that were created in one go have a beginning and an end of their own."""
        scheduler, apiserver = self._scheduler.usage(), self._apiserver.usage()
        started_s = came_s = self._started_s
        if created is not None:
            started_s = created.started_unix_s - (time.time() - time.monotonic())
            came_s = started_s + created.seconds
        times = [
            at
            for name, watch in self._watches.items()
            for pod, at in watch.times_by_pod().items()
            if pod not in self._before[name]
        ]
        if not times:
            raise HarnessError("no pod was bound while it was measured")
        return Collected(
            pods=len(times),
            seconds=max(times) - started_s,
            created_per_s=created.per_second if created else 0.0,
            behind_s=max(0.0, max(times) - came_s),
            scheduler_cpu_s=scheduler.cpu_s - self._scheduler_before.cpu_s,
            apiserver_cpu_s=apiserver.cpu_s - self._apiserver_before.cpu_s,
            peak_memory_bytes=scheduler.peak_memory_bytes,
        )


def wait_bound(watch: BindWatch, count: int, timeout_s: float, check: Callable[[], None]) -> None:
    """Wait until so many pods have a node. `check` is asked meanwhile and raises when that will never be."""
    deadline = time.monotonic() + timeout_s
    while watch.count < count:
        check()
        left_s = max(0.0, deadline - time.monotonic())
        try:
            watch.wait(count, min(CHECK_PERIOD_S, left_s))
        except HarnessError as error:
            if left_s <= CHECK_PERIOD_S:
                raise HarnessError(f"{watch.count} of {count} pods were bound within {timeout_s:.0f} s") from error


def _bound(control_plane: ControlPlane, namespace: str) -> set[str]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = control_plane.api.list_all(path, fieldSelector="spec.nodeName!=")
    return {f"{namespace}/{pod['metadata']['name']}" for pod in pods}
