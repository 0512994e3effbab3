"""Defines the interface of a place to run plans: a cluster, and one scheduler for it.

There are two: a real control plane with a scheduler beside it (`control_plane_site`), and the cluster in memory with
our scheduler in the same process (`embedded_site`). Both are accessed in terms of the Kubernetes API, so that
operations and the check of the outcome are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from kscheduler.testing.controlplane.load import Batch, Created
from perf.workloads.object_template import Object
from perf.workloads.pod_log import PodLog
from perf.workloads.suite import Plan


class Connection(Protocol):
    """Sends one thread's requests, like `kscheduler.testing.controlplane.api.Api`.

    An error status raises RequestFailed.
    """

    def get(self, path: str) -> Any: ...

    def create(self, path: str, body: Object) -> Any: ...

    def replace(self, path: str, body: Object) -> Any: ...

    def request(self, method: str, path: str) -> Any: ...

    def list_all(self, path: str, **selectors: str) -> list[Object]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time and memory that scheduler and apiserver have used so far."""

    scheduler_cpu_s: float  # includes the cluster's, if both are one process
    apiserver_cpu_s: float  # 0 if there is no apiserver
    peak_memory_bytes: int  # that of the scheduler's process


class Site(Protocol):
    """A cluster with a scheduler; a context manager, and leaving the context ends both."""

    pods: PodLog

    def __enter__(self) -> Site: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def connect(self) -> Connection:
        """A connection for one thread."""
        ...

    def create(self, batch: Batch) -> Created:
        """Create many objects, fast or at the rate given, and wait until they are there."""
        ...

    def usage(self) -> Usage: ...

    def check(self) -> None:
        """HarnessError when a process that must run has ended."""
        ...

    def stop_scheduler(self) -> None:
        """Let it finish what it does; no decision follows."""
        ...

    def scheduled_events(self) -> list[Object]:
        """The Scheduled events there are now."""
        ...


MakeSite = Callable[[Plan], Site]  # for the feature gates and the configuration that a plan asks for
