"""Supervises one child process: its log file, readiness, end, and use of CPU and memory.

A child never outlives the process that started it, however that one ends: the kernel kills it (PR_SET_PDEATHSIG).
That signal is tied to the *thread* that started the child, so one thread, which lives as long as the program, starts
all children. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kscheduler.testing.controlplane.faults import HarnessError, StartFailed
from kscheduler.testing.controlplane.patience import Patience, eventually

LOG_TAIL_CHARS = 3000

# Requests the signal, then executes the program. A preexec_fn would do it in one step, but forking a threaded
# interpreter is deprecated. 1 is PR_SET_PDEATHSIG; a parent that died before the request is detected by its pid.
_LAUNCHER = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time and memory that a process has used so far."""

    cpu_s: float  # user and system, all threads; some 0.03 s are the launcher's, so subtract an early reading
    peak_memory_bytes: int  # highest resident set (VmHWM)


class Process:
    """A child process with a name. It may be started again after a stop, and then appends to its log."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = {**os.environ, **(environment or {})}
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None
        self._last_usage = Usage(0.0, 0)

    @property
    def pid(self) -> int:
        """The process id. Raises HarnessError if the process was never started."""
        if self._child is None:
            raise HarnessError(f"{self.name} is not started")
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """True if the process was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start the process. Raises HarnessError if it is running."""
        if self.is_running:
            raise HarnessError(f"{self.name} runs already, with pid {self.pid}")
        with self.log.open("ab") as log:
            self._child = _spawner.spawn(self.command, self._environment, self._directory, log)

    def wait_ready(self, is_ready: Callable[[], bool]) -> None:
        """Wait until `is_ready` returns True.

        Raises StartFailed if the process ends first, HarnessError if there is no more activity.
        """
        patience = Patience(f"{self.name} is ready", self.log_tail)
        while not is_ready():
            if not self.is_running:
                raise StartFailed(f"{self.name} ended with exit code {self.exit_code}; {self.log_tail()}")
            patience.pause()

    def wait(self) -> int:
        """Wait for the process to end; return its exit code. Raises HarnessError if it runs on without any activity."""
        if self._child is None:
            raise HarnessError(f"{self.name} is not started")
        eventually(lambda: not self.is_running, f"{self.name} ends", state=self.log_tail)
        return self._child.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is running."""
        self.usage()
        if self.is_running:
            os.kill(self.pid, number)

    def stop(self, grace_s: float = 10.0) -> int | None:
        """Send SIGTERM, and SIGKILL after `grace_s`; wait for the end. Return the exit code, None if never started."""
        if self._child is None:
            return None
        self.signal(signal.SIGTERM)
        try:
            return self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int | None:
        """Send SIGKILL and wait for the end. Return the exit code, None if never started."""
        if self._child is None:
            return None
        self.signal(signal.SIGKILL)
        return self._child.wait()

    def usage(self) -> Usage:
        """Return CPU time and peak memory so far.

        If the process has ended: as of the last call or signal before its end.
        """
        if self.is_running:
            with contextlib.suppress(OSError, LookupError):  # it ended between the question and the answer
                self._last_usage = Usage(_cpu_s(self.pid), _memory_bytes(self.pid, "VmHWM"))
        return self._last_usage

    def resident_bytes(self) -> int:
        """Return the present resident set in bytes (VmRSS). Raises OSError if the process has ended."""
        return _memory_bytes(self.pid, "VmRSS")

    def log_text(self) -> str:
        """Return everything the process has logged, in all its starts."""
        return self.log.read_text(errors="replace")

    def log_tail(self) -> str:
        """Return the path of the log and its last lines, for error messages."""
        return f"the end of {self.log}:\n{self.log_text()[-LOG_TAIL_CHARS:]}"


class _Spawner:
    """The thread that starts all children; it ends with the program, whereupon the kernel kills the children."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]]
        self._requests = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def spawn(
        self, command: Sequence[str], environment: Mapping[str, str], directory: Path | None, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        launched = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]

        def start() -> subprocess.Popen[bytes]:
            # A session of its own, so that Ctrl-C interrupts only this program, which then ends the children in order.
            return subprocess.Popen(
                launched,
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        self._ensure_thread()
        answer: Future[subprocess.Popen[bytes]] = Future()
        self._requests.put((start, answer))
        return answer.result()

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="controlplane-spawner", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            start, answer = self._requests.get()
            try:
                answer.set_result(start())
            except Exception as error:  # handed to the caller
                answer.set_exception(error)


_spawner = _Spawner()


def _cpu_s(pid: int) -> float:
    # Fields 14 and 15 of stat, counted behind the command in parentheses, which may hold spaces.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)
