"""Signals to stop that come while the command is being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.testing.controlplane.patience import eventually

# Stands in for a library that the command imports, and makes that import last for ever.
ENDLESS_IMPORT = """
print("importing", flush=True)
while True:
    pass
"""


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    (tmp_path / "msgspec.py").write_text(ENDLESS_IMPORT)
    return tmp_path


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """SIGINT is not ignored in the command, as it would be if a shell's background job runs these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def stopped(number: signal.Signals, folder: Path, *arguments: str) -> tuple[int, str]:
    """Send a signal to the command while it imports a module of the folder; return its exit code and its stderr."""
    command = [sys.executable, "-m", "kscheduler", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "importing\n"
            process.send_signal(number)
            eventually(lambda: process.poll() is not None, "the command ends")
        finally:
            process.kill()
        _, errors = process.communicate()
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_was_asked_to_stop_is_ended_by_another_signal_with_another_code(number: signal.Signals) -> None:
    program = f"""
import signal
from kscheduler.command.stop_signals import end_at_next_signal

end_at_next_signal()
signal.raise_signal({number})
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "kscheduler: error: stopped at once by a second signal\n")


def test_a_second_signal_ends_a_process_whose_stderr_nobody_reads() -> None:
    program = """
import os
import signal
from kscheduler.command.stop_signals import end_at_next_signal

os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
end_at_next_signal()
signal.raise_signal(signal.SIGTERM)
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        try:
            eventually(lambda: process.poll() is not None, "the process ends")
        finally:
            process.kill()
    assert process.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_scheduler_that_has_not_begun_ends_as_one_that_is_stopped(number: signal.Signals, endless: Path) -> None:
    assert stopped(number, endless, "run") == (0, "")


def test_another_command_that_is_interrupted_says_so_in_one_line(endless: Path) -> None:
    assert stopped(signal.SIGINT, endless, "version") == (130, "kscheduler: interrupted\n")


def test_another_command_is_ended_by_sigterm_as_any_program(endless: Path) -> None:
    assert stopped(signal.SIGTERM, endless, "version") == (-signal.SIGTERM, "")
