"""Writes lines to a pipe or a socket, and does not wait long for its reader.

A container's stderr is a pipe. If its reader stops, as when the disk for logs is full or slow, or the container runtime
is restarted, the pipe fills up after some hundred lines, and the next write waits for as long as that takes. In a
program with one event loop everything would wait with it. So lines that cannot be written in time are dropped, and
their number is written as soon as something can be.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable
from typing import TextIO

# So much can be written to a pipe or a socket that is ready without waiting (PIPE_BUF of Linux).
PIECE_BYTES = 4096
# Of the time that passes, writes may wait for this share, so that a reader that is slow for good costs little.
WAITING_SHARE = 0.02
SHORTEST_WAIT_S = 0.01  # a wait is rounded up to milliseconds


class PipeWriter:
    """Writes to one file descriptor, which is a pipe or a socket. Not for several threads at once."""

    def __init__(
        self, descriptor: int, longest_wait_s: float, now: Callable[[], float], notice: Callable[[int], bytes]
    ) -> None:
        """Write to `descriptor`, and wait for its reader for `longest_wait_s` in all until time has passed again.

        `notice` returns the line about a number of lines that were dropped.
        """
        self._descriptor = descriptor
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        self._longest_wait_s = longest_wait_s
        self._wait_s = longest_wait_s  # how long writes may wait now
        self._waited_at = now()
        self._now = now
        self._notice = notice
        self._rest = b""  # of a line that has been begun
        self._dropped = 0  # lines, since the last notice

    def write(self, line: bytes) -> None:
        """Write a line, or drop it if the reader is not ready in time. Raises OSError if there is no reader."""
        self._rest = self._send(self._rest)
        if self._dropped and not self._rest:
            self._begin(self._notice(self._dropped), 0)
        if self._rest or self._dropped:
            self._dropped += 1
        else:
            self._begin(line, 1)

    def _begin(self, line: bytes, dropped: int) -> None:
        """Send a line; `dropped`: how many lines there are to be counted if nothing of it could be sent."""
        rest = self._send(line)
        if rest == line:
            self._dropped += dropped
        else:
            self._dropped, self._rest = 0, rest

    def _send(self, data: bytes) -> bytes:
        """Write as much as the reader takes in time, and return what is left."""
        while data and self._is_ready():
            data = data[os.write(self._descriptor, data[:PIECE_BYTES]) :]
        return data

    def _is_ready(self) -> bool:
        if self._ready.poll(0):
            return True
        now = self._now()
        self._wait_s = min(self._longest_wait_s, self._wait_s + WAITING_SHARE * (now - self._waited_at))
        self._waited_at = now
        if self._wait_s < SHORTEST_WAIT_S:
            return False
        is_ready = bool(self._ready.poll(1000.0 * self._wait_s))
        self._waited_at = self._now()
        self._wait_s = max(0.0, self._wait_s - (self._waited_at - now))
        return is_ready


def pipe_writer(
    stream: TextIO, longest_wait_s: float, notice: Callable[[int], bytes] = lambda lines: b""
) -> PipeWriter | None:
    """Return a writer to the pipe or socket that the stream writes to; None if it writes to something else."""
    try:
        descriptor = stream.fileno()
        return PipeWriter(descriptor, longest_wait_s, time.monotonic, notice) if is_pipe(descriptor) else None
    except (OSError, ValueError):  # it is in memory, or closed
        return None


def is_pipe(descriptor: int) -> bool:
    """Return True if it is a pipe or a socket, whose reader a write may have to wait for."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
