"""Runs plans with our scheduler on the cluster in memory, in a process of its own: a `Site` without apiserver."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import yaml

from kscheduler.testing.controlplane import HarnessError, RequestFailed
from kscheduler.testing.controlplane.load import Batch, Created
from perf.workloads.embedded_cluster import Reply, Request
from perf.workloads.object_template import Object
from perf.workloads.pod_log import PodLog
from perf.workloads.site import Usage
from perf.workloads.suite import Plan

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 600.0
END_TIMEOUT_S = 5.0
SHOWN_CHARS = 2000


class EmbeddedSite:
    """The cluster of one run, in memory; implements `Site`."""

    def __init__(self, plan: Plan) -> None:
        self._configuration = yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                **plan.scheduler_config,
            }
        )
        self._release = msgspec.json.encode([plan.kubernetes, plan.feature_gates]).decode()
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._waiting: dict[int, Future[Reply]] = {}  # id of a request -> its reply
        self.pods = PodLog()

    def __enter__(self) -> EmbeddedSite:
        self._errors = tempfile.TemporaryFile()  # closed in __exit__
        self._child = subprocess.Popen(
            [sys.executable, "-m", "perf.workloads.embedded_cluster", self._release],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for this program, which ends it
        )
        self._reader = threading.Thread(target=self._read, name="embedded-cluster", daemon=True)
        self._reader.start()
        try:
            self.call("START", body=self._configuration)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(OSError):  # it may have ended with something unread
            self._child.stdin.close()
        try:
            self._child.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join()
        self._child.stdout.close()
        if isinstance(error, HarnessError) and (reported := self._reported()):
            print(f"the embedded cluster reported: {reported}", file=sys.stderr)
        self._errors.close()

    @property
    def pid(self) -> int:
        return self._child.pid

    def connect(self) -> EmbeddedConnection:
        return EmbeddedConnection(self)

    def create(self, batch: Batch) -> Created:
        return msgspec.convert(self.call("BATCH", body=batch), Created)

    def usage(self) -> Usage:
        used = self.call("USAGE")
        return Usage(used["cpu_s"], 0.0, used["peak_memory_bytes"])

    def check(self) -> None:
        if self._child.poll() is not None:
            raise self._ended()

    def stop_scheduler(self) -> None:
        self.call("STOP")

    def scheduled_events(self) -> list[Object]:
        return list(self.call("EVENTS"))

    def call(self, method: str, path: str = "", body: Any = None) -> Any:
        """Ask the program; RequestFailed for what it refuses, HarnessError when it is gone."""
        number = next(self._numbers)
        reply: Future[Reply] = Future()
        self._waiting[number] = reply
        assert self._child.stdin is not None
        try:
            with self._writing:
                self._child.stdin.write(msgspec.json.encode(Request(number, method, path, body)) + b"\n")
                self._child.stdin.flush()
            found = reply.result(ANSWER_TIMEOUT_S)
        except OSError:
            raise self._ended() from None
        except FutureTimeoutError:
            raise HarnessError(f"the embedded cluster did not answer {method} {path}") from None
        finally:
            self._waiting.pop(number, None)
        if found.status >= 400:
            raise RequestFailed(found.status, found.reason, found.message)
        return found.body

    def _read(self) -> None:
        """Replies to those who wait for them, reports into the log of pods, until the program ends."""
        assert self._child.stdout is not None
        decode = msgspec.json.Decoder(Reply).decode
        for line in self._child.stdout:
            reply = decode(line)
            if reply.id:
                if (waiting := self._waiting.get(reply.id)) is not None:
                    waiting.set_result(reply)
            else:
                for key, at_s, is_bound in reply.body:
                    self.pods.note(key, at_s, is_bound)
        for left in list(self._waiting.values()):
            left.set_exception(self._ended())

    def _ended(self) -> HarnessError:
        code = self._child.wait(END_TIMEOUT_S)
        reported = self._reported()
        recorded = f": {reported}" if reported else ""
        return HarnessError(f"the embedded cluster ended by itself with exit code {code}{recorded}")

    def _reported(self) -> str:
        """The end of what it wrote on its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-SHOWN_CHARS:]


class EmbeddedConnection:
    """Sends requests to the program with the cluster, under the paths of the Kubernetes API.

    Implements `Connection`.
    """

    def __init__(self, site: EmbeddedSite) -> None:
        self._site = site

    def get(self, path: str) -> Any:
        return self._site.call("GET", path)

    def create(self, path: str, body: Object) -> Any:
        return self._site.call("POST", path, body)

    def replace(self, path: str, body: Object) -> Any:
        return self._site.call("PUT", path, body)

    def request(self, method: str, path: str) -> Any:
        return self._site.call(method, path)

    def list_all(self, path: str, **selectors: str) -> list[Object]:
        if selectors:
            raise HarnessError(f"the embedded cluster knows no selectors: {selectors}")
        return list(self._site.call("LIST", path))

    def close(self) -> None:
        pass
