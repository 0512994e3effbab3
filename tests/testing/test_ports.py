"""Runs of tests side by side, and servers that are started again, do not take each other's ports."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kscheduler.testing.controlplane import ports
from kscheduler.testing.controlplane.faults import HarnessError

ROOT = Path(__file__).parents[2]
OTHER_RUN = """
import sys
from kscheduler.testing.controlplane.ports import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_port() -> Iterator[int]:
    """A port that another process was given, on which it does not listen yet."""
    command = [sys.executable, "-c", OTHER_RUN]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        yield int(other.stdout.readline())


def test_a_port_is_given_to_one_of_two_running_processes(other_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first = other_port - (other_port - ports.FIRST) % ports.BLOCK
    monkeypatch.setattr(ports, "_reserved", [])
    monkeypatch.setattr(ports, "FIRST", first)
    monkeypatch.setattr(ports, "LAST", first + ports.BLOCK)
    with pytest.raises(HarnessError, match="reserved by running tests"):
        ports.free_port()


def test_a_process_is_given_no_port_twice_and_none_that_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [ports.free_port() for _ in range(2 * ports.BLOCK)]
    assert len(set(given)) == len(given)
    with socket.socket() as server:
        server.bind(("127.0.0.1", taken := ports.free_port()))
        monkeypatch.setattr(ports, "_reserved", [given[0], taken])
        assert ports.free_port() == given[0]
