"""`kscheduler record` beside a scheduler on a real control plane."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kscheduler.simulator.recorded import read_recorded
from kscheduler.testing.controlplane.patience import eventually


def placed_in(out: Path) -> int:
    """How many pods have been bound according to a record, which may be under way: it follows the cluster."""
    return len(read_recorded(str(out), frozenset(["default-scheduler"])).placements)


@contextmanager
def recording(kubeconfig: Path, out: Path, *flags: str) -> Iterator[list[str]]:
    """Run `kscheduler record` with these flags until the block ends. The list then has what it printed."""
    command = [sys.executable, "-m", "kscheduler", "record", "--out", str(out), "--kubeconfig", str(kubeconfig)]
    command += flags
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed: list[str] = []
    try:
        eventually(lambda: out.exists() or process.poll() is not None, "the recording has begun")
        yield printed
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        printed.append(output)
    finally:
        process.kill()
        process.communicate()
