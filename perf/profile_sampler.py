"""Samples the stacks of a process: from outside with py-spy, or from inside where py-spy has no right to trace it.

py-spy sees native frames, so that it distinguishes kernels, the interpreter and the C library. Our own sampler sees
only Python's frames, and assigns a kernel's time to its caller.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from perf.profile_stacks import Stack

WAIT_S = 60.0  # for py-spy to read the symbols, and to write what it has found
BEGINS = "Sampling process"


class CannotTrace(Exception):
    """py-spy is not installed, or has no right to trace the process."""


class PySpy:
    """A run of py-spy on a process, by its id, until stopped."""

    def __init__(self, pid: int, path: Path, rate: int) -> None:
        program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
        if program is None:
            raise CannotTrace("py-spy is not installed")
        self._path = path
        path.unlink(missing_ok=True)
        command = [program, "record", "--native", "--pid", str(pid), "--rate", str(rate)]
        self._process = subprocess.Popen(
            [*command, "--format", "raw", "--output", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._recorded: list[str] = []
        self._records = False
        self._has_answered = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._has_answered.wait(WAIT_S)
        if not self._records:
            self._process.kill()
            self._process.wait()
            self._reading.join()
            raise CannotTrace(self._explain())

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._recorded.append(line.strip())
                if BEGINS in line:
                    self._records = True
                    self._has_answered.set()
        self._has_answered.set()  # or never will

    def _explain(self) -> str:
        recorded = " ".join(line for line in self._recorded if line) or "no output"
        return f"py-spy: {recorded}"

    def stop(self) -> None:
        """Let it write what it has found. CannotTrace if it has found nothing."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        if not self._path.exists() or not self._path.stat().st_size:
            raise CannotTrace(self._explain())


class Sampler:
    """Samples the main thread's stack at a steady rate of CPU time, in a signal handler."""

    def __init__(self, rate: int) -> None:
        self._period_s = 1 / rate
        self._seen: Counter[Stack] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, self._period_s, self._period_s)

    def stop(self) -> Counter[Stack]:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        return self._seen

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._seen[stack_of(frame)] += 1


def stack_of(frame: FrameType | None) -> Stack:
    """Frames as py-spy names them, the outermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
        found.append(f"{name} ({_short(code.co_filename)}:{frame.f_lineno})".replace(";", ","))
        frame = frame.f_back
    return tuple(reversed(found))


def _short(path: str) -> str:
    """From the last folder on which modules are searched; so a module's path reads as its name."""
    for folder in sorted((entry or str(Path.cwd()) for entry in sys.path), key=len, reverse=True):
        if path.startswith(f"{folder}/"):
            return path[len(folder) + 1 :]
    return path
