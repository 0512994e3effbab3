"""Where a plan is carried out: a cluster, and the one scheduler that works on it.

There are two: a real control plane with a scheduler beside it (`control_plane_site`), and the cluster in memory with
ours in the same process (`embedded_site`). Both answer in the words of the Kubernetes API, so that operations and the
judgement of the outcome are the same.
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
    """Requests of one thread, as `kscheduler.testing.controlplane.api.Api` has them; a refusal is a RequestFailed."""

    def get(self, path: str) -> Any: ...

    def create(self, path: str, body: Object) -> Any: ...

    def replace(self, path: str, body: Object) -> Any: ...

    def request(self, method: str, path: str) -> Any: ...

    def list_all(self, path: str, **selectors: str) -> list[Object]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used so far."""

    scheduler_cpu_s: float  # the cluster's part is in it where both are one process
    apiserver_cpu_s: float  # zero where there is none
    peak_memory_bytes: int  # of the scheduler's process


class Site(Protocol):
    """A context: leaving it ends everything."""

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
