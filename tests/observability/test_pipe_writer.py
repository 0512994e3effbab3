"""Log lines through a pipe whose reader stops, goes on or is gone."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kscheduler.observability.pipe_writer import WAITING_SHARE, PipeWriter, is_pipe
from tests.support.clocks import ManualClock

LINE = b"x" * 999 + b"\n"
ROOM = 65_536


@dataclass
class Pipe:
    reading: int
    writing: int

    def read(self) -> bytes:
        """Return everything that is in the pipe."""
        return os.read(self.reading, 10 * ROOM)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ROOM)
    yield Pipe(reading, writing)
    os.close(reading)
    os.close(writing)


def dropped(lines: int) -> bytes:
    return b"dropped %d\n" % lines


def writer(pipe: Pipe, clock: ManualClock, longest_wait_s: float = 0.0) -> PipeWriter:
    return PipeWriter(pipe.writing, longest_wait_s, clock.now, dropped)


def test_lines_arrive_in_order(pipe: Pipe) -> None:
    written = writer(pipe, ManualClock())
    written.write(b"first\n")
    written.write(LINE)
    assert pipe.read() == b"first\n" + LINE


def test_lines_that_nobody_reads_are_dropped_and_counted_once_somebody_reads_again(pipe: Pipe) -> None:
    written = writer(pipe, ManualClock())
    for _ in range(100):
        written.write(LINE)
    before = pipe.read()
    whole, begun = divmod(len(before), len(LINE))
    written.write(b"after\n")
    after = pipe.read()
    lost = 100 - whole - (1 if begun else 0)
    assert lost > 0
    rest = LINE[begun:] if begun else b""
    # The line that was begun is finished, so that no two lines are joined.
    assert after == rest + dropped(lost) + b"after\n"


def test_a_line_that_is_larger_than_the_pipe_is_finished_before_the_next_one(pipe: Pipe) -> None:
    written = writer(pipe, ManualClock())
    large = b"y" * (2 * ROOM) + b"\n"
    written.write(large)
    written.write(b"lost\n")
    found = pipe.read()
    for _ in range(3):
        written.write(b"lost, too\n")
        found += pipe.read()
    assert found.startswith(large + b"dropped ")
    assert found.count(b"\n") == 2 + found.count(b"lost, too\n")


def test_a_reader_that_does_not_read_is_waited_for_once_and_then_for_a_share_of_the_time(pipe: Pipe) -> None:
    clock = ManualClock()
    written = writer(pipe, clock, longest_wait_s=0.5)
    waits: list[float] = []

    class Full:
        def poll(self, timeout_ms: float) -> list[tuple[int, int]]:
            if timeout_ms:
                waits.append(timeout_ms / 1000)
                clock.advance(timeout_ms / 1000)
            return []

    written._ready = Full()  # type: ignore[assignment]
    for _ in range(1000):
        written.write(LINE)
        clock.advance(0.1)
    assert waits[0] == 0.5
    assert 0 < sum(waits[1:]) <= WAITING_SHARE * 110


def test_a_reader_that_is_gone_is_an_error_that_the_caller_sees() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0), pytest.raises(BrokenPipeError):
        PipeWriter(writing, 0.0, ManualClock().now, dropped).write(LINE)


def test_pipes_and_sockets_are_distinguished_from_files(pipe: Pipe, tmp_path: Path) -> None:
    one, other = socket.socketpair()
    with one, other, open(os.devnull, "wb") as nowhere, (tmp_path / "log").open("wb") as file:
        assert [is_pipe(each) for each in (pipe.writing, one.fileno(), nowhere.fileno(), file.fileno())] == [
            True,
            True,
            False,
            False,
        ]
