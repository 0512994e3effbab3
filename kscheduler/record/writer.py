"""Writes the entries of one file of a record, such that a reader finds complete lines even if the writer is killed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.record.compression import zstandard
from kscheduler.record.entries import Entry, Mark

LEVEL = 6  # compression level of zstd: a tenth more bytes than level 19, in a hundredth of the time

_encode = msgspec.json.Encoder().encode


def line_of(entry: Entry) -> bytes:
    return _encode(entry) + b"\n"


class RecordWriter:
    """Writes one file of a record; a context manager. Raises ConfigError if the file exists or cannot be written."""

    def __init__(self, path: Path, *, level: int = LEVEL) -> None:
        self.path = path
        self._zstandard = zstandard()
        try:
            self._file = path.open("xb")
        except FileExistsError:
            raise ConfigError(f"{path}: expected a new file, this one exists") from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
        self._compressor = self._zstandard.ZstdCompressor(level=level).compressobj()
        self._digest = hashlib.sha256()
        self._is_marked = True
        self._has_failed = False  # then nothing is added, or a reader would find a gap where it expects the next line
        self.bytes = 0  # size of the file so far
        self.flushed = 0  # of these, how many are in the file for certain and end a block that a reader can decompress

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def write(self, entry: Entry) -> None:
        """Add an entry; it is in the file after the next `flush`.

        Raises ConfigError if writing fails, as on a full disk.
        """
        self.write_lines(line_of(entry))

    def write_lines(self, lines: bytes) -> None:
        """Add complete lines, as `line_of` returns them. Raises ConfigError as `write` does."""
        self._is_marked = False
        self._digest.update(lines)
        self._put(self._compressor.compress(lines))

    def flush(self) -> None:
        """Write all buffered entries to the file, and a `Mark` with their digest, so that a reader can read them."""
        if self._is_marked:
            return
        self.write(Mark(self._digest.hexdigest()))
        self._is_marked = True
        self._put(self._compressor.flush(self._zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._on_disk(self._file.flush)
        self.flushed = self.bytes

    @property
    def is_closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        """Write buffered entries, and close the file even if that fails. Raises ConfigError.

        After a failed write it only closes the file.
        """
        if self._file.closed:
            return
        try:
            if not self._has_failed:
                self.flush()
                self._put(self._compressor.flush(self._zstandard.COMPRESSOBJ_FLUSH_FINISH))
                self._on_disk(self._file.flush)
                self.flushed = self.bytes
        finally:
            with contextlib.suppress(OSError):  # it tries once more to write what could not be written
                self._file.close()

    def _put(self, content: bytes) -> None:
        self._on_disk(lambda: self._file.write(content))
        self.bytes += len(content)

    def _on_disk(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self._has_failed = True
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from error
