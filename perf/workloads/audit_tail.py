"""Reads from the apiserver's audit log, as it grows, when pods were created and bound.

Each entry has the times at which the request arrived and was answered, so no watch has to keep up with the bindings,
and reading late does no harm. Only the two kinds of request that matter are logged.
"""

from __future__ import annotations

import threading
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType

import msgspec

from perf.workloads.pod_log import PodLog

READ_PERIOD_S = 0.02
MAX_MEGABYTES = 100_000  # never begin another file

POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create]
  resources:
  - {group: "", resources: [pods, pods/binding]}
- level: None
"""


class _Reference(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Entry(msgspec.Struct, rename="camel"):
    stage_timestamp: datetime
    request_received_timestamp: datetime
    object_ref: _Reference = msgspec.field(default_factory=_Reference)
    response_status: _Status = msgspec.field(default_factory=_Status)


class AuditTail:
    """A context manager that reads the log in a thread, and reads the rest of it at the end."""

    def __init__(self, directory: Path, log: PodLog) -> None:
        self._policy = directory / "audit-policy.yaml"
        self._policy.write_text(POLICY)
        self._path = directory / "audit.log"
        self._log = log
        self._decode = msgspec.json.Decoder(_Entry).decode
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, name="audit-tail", daemon=True)
        self._unix_minus_monotonic_s = time.time() - time.monotonic()

    @property
    def flags(self) -> tuple[str, ...]:
        """Of the apiserver that writes the log."""
        return (
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._path}",
            f"--audit-log-maxsize={MAX_MEGABYTES}",
        )

    def __enter__(self) -> AuditTail:
        self._path.touch()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _read(self) -> None:
        begun = b""  # a line that was being written
        with self._path.open("rb") as file:
            while True:
                is_last = self._ending.wait(READ_PERIOD_S)
                *lines, begun = (begun + file.read()).split(b"\n")
                for line in lines:
                    self._note(self._decode(line))
                if is_last:
                    return

    def _note(self, entry: _Entry) -> None:
        """A name that the apiserver made up is not in the log; nobody waits for such pods."""
        pod = entry.object_ref
        if entry.response_status.code == 201 and pod.name:
            key, is_binding = f"{pod.namespace}/{pod.name}", pod.subresource == "binding"
            if is_binding:
                self._log.note_asked(key, self._monotonic_s(entry.request_received_timestamp))
            self._log.note(key, self._monotonic_s(entry.stage_timestamp), is_binding)

    def _monotonic_s(self, moment: datetime) -> float:
        return moment.timestamp() - self._unix_minus_monotonic_s
