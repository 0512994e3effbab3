"""Writes a record in a thread of its own, so that a busy event loop pays for encoding only.

Lines are collected and handed to the thread in large pieces; it computes the digest, compresses and writes them, all of
which release the GIL. Should the disk fail or be too slow, the record ends there, and nothing else is affected.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kscheduler.errors import ConfigError
from kscheduler.record.entries import Entry
from kscheduler.record.recorder import next_part
from kscheduler.record.writer import RecordWriter, line_of

PIECE_BYTES = 256 << 10  # what is handed to the thread at once
MAX_WAITING = 512  # pieces; a disk that is so far behind will not catch up
LEVEL = 1  # compression level of zstd: a fifth more bytes than level 6, in a third of the time


class KeptPart(NamedTuple):
    """A file of a record, as far as it can be read."""

    number: int
    path: Path
    bytes: int  # up to its last flush
    is_complete: bool  # nothing will be added


class BackgroundWriter:
    """Writes the files of a record. Each method takes microseconds; `failure` says why the record has ended early."""

    def __init__(self, path: Path, *, keep_parts: int = 0) -> None:
        """Create the file. `keep_parts`: how many of the newest files are kept; 0: all. Raises ConfigError."""
        self._path = path
        self.keep_parts = keep_parts
        self.first, first = next_part(path)  # number of the first file
        self.number = self.first  # of the file that entries are added to now
        self.parts = [first]  # kept files, oldest first
        self.failure = ""
        self._numbers = {first: self.number}  # kept file -> its number
        self._closed: dict[Path, int] = {}  # kept file that is closed -> its size
        self._writer = RecordWriter(first, level=LEVEL)
        self._lines: list[bytes] = []
        self._held = 0  # bytes in `_lines`
        self._work: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """The bytes of the file that is written now, as far as it was written."""
        return self._writer.bytes

    def kept(self) -> list[KeptPart]:
        """Return the kept files, oldest first. Any thread may call this at any time."""
        # The thread closes a file, then replaces the writer, then adds the new file to the parts. So, reading the other
        # way round, each part is either the writer's or closed; one that is neither was removed meanwhile.
        parts = tuple(self.parts)
        writer = self._writer
        found = []
        for path in parts:
            number, size = self._numbers.get(path), self._closed.get(path)
            if number is None:
                continue
            if path == writer.path:
                found.append(KeptPart(number, path, writer.flushed, writer.is_closed))
            elif size is not None:
                found.append(KeptPart(number, path, size, True))
        return found

    def write(self, entry: Entry) -> None:
        """Add an entry to the record."""
        line = line_of(entry)
        self._lines.append(line)
        self._held += len(line)
        if self._held >= PIECE_BYTES:
            self._hand_over()

    def flush(self) -> None:
        """Have all entries written to the file, so that they can be read."""
        self._hand_over()
        self._work.put(self._flush)

    def settle(self) -> None:
        """Wait until everything that was handed over is written."""
        done = threading.Event()

        def note() -> bool:
            done.set()
            return True

        self._work.put(note)
        done.wait()

    def next_part(self) -> None:
        """Close the file and begin the next one; entries that follow go there."""
        self._hand_over()
        self.number, path = next_part(self._path, self.number)
        number = self.number
        self._work.put(lambda: self._change_file(number, path))

    def close(self) -> None:
        """Write all entries, close the file and wait for that."""
        self._hand_over()
        self._work.put(self._close)
        self._thread.join()

    def _hand_over(self) -> None:
        if not self._lines:
            return
        lines, self._lines, self._held = b"".join(self._lines), [], 0
        if self.failure:
            return
        if self._work.qsize() >= MAX_WAITING:
            self.failure = f"{self.parts[-1]}: the disk is too slow"
            return
        self._work.put(lambda: self._write(lines))

    # --- in the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            step = self._work.get()
            try:
                goes_on = step()
            except (ConfigError, OSError) as error:  # an OSError is of the directory, when an old file is removed
                self.failure = str(error)
                goes_on = step != self._close

    def _write(self, lines: bytes) -> bool:
        if not self.failure:
            self._writer.write_lines(lines)
        return True

    def _flush(self) -> bool:
        if not self.failure:
            self._writer.flush()
        return True

    def _change_file(self, number: int, path: Path) -> bool:
        if self.failure:
            return True
        self._writer.close()
        self._closed[self._writer.path] = self._writer.bytes
        self._writer = RecordWriter(path, level=LEVEL)
        self._numbers[path] = number
        self.parts.append(path)
        while 0 < self.keep_parts < len(self.parts):
            removed = self.parts.pop(0)
            removed.unlink(missing_ok=True)
            del self._numbers[removed], self._closed[removed]
        return True

    def _close(self) -> bool:
        self._writer.close()
        return False
