"""Reads the entries of one file of a record. Errors say precisely what is wrong with it.

A file without `End` was cut off, for example because the recorder was killed: all entries before the last `Mark` are
valid. Memory use is bounded by the longest line allowed, whatever the file contains.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.input.input_files import check_regular
from kscheduler.record.compression import zstandard
from kscheduler.record.entries import FORMAT, AnyEntry, End, Header, Mark, Readable

MAX_LINE_BYTES = 32 << 20  # far more than the 1.5 MiB that etcd allows an object

# Compressed bytes that are decompressed at once. A block takes 4 bytes at least and becomes 128 KiB at most.
PIECE_BYTES = MAX_LINE_BYTES >> 17 << 2


class _First(msgspec.Struct, frozen=True):
    """The fields that the header has in every format, past or future."""

    entry: str
    format: int
    version: str = "?"


_decode_first = json_decoder(_First)
_decode = json_decoder(AnyEntry)


class RecordReader:
    """Iterates, once, over the entries in one file of a record.

    Afterwards `is_cut` says whether the end of the file is missing.
    """

    def __init__(self, path: Path) -> None:
        """Open the file and read its header. Raises ConfigError if it is no record, or has an unknown format."""
        self.path = path
        self.is_cut = False  # the end is missing
        try:
            check_regular(path)
            file = path.open("rb")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
        self._lines = io.BufferedReader(_Decompressed(file))
        self._digest = hashlib.sha256()
        self._number = 0  # number of the last line read
        try:
            self.header = self._header()
        except ConfigError:
            self._lines.close()
            raise

    def _header(self) -> Header:
        line = self._line()
        try:
            first = _decode_first(line)
            if first.entry != "header":
                raise DecodeError("the first line is no header")
        except DecodeError:
            raise ConfigError(
                f"{self.path}: expected a record of `kscheduler record` or `kscheduler run --record`, this is none"
            ) from None
        if first.format > FORMAT:
            raise ConfigError(
                f"{self.path}: expected a record of format {FORMAT} or older, got format {first.format}, written by "
                f"kscheduler {first.version[:40]}: read it with that version or a newer one"
            )
        header = self._entry(line)
        assert isinstance(header, Header)
        return header

    def __iter__(self) -> Iterator[Readable]:
        """Yield the entries before the last mark. Raises ConfigError for a line that was damaged or modified."""
        held: list[Readable] = []  # entries since the last mark, not confirmed by a mark yet
        while line := self._line():
            if not line.endswith(b"\n"):
                break  # cut off within a line
            before = self._digest.hexdigest()
            entry = self._entry(line)
            if isinstance(entry, Mark):
                if entry.digest != before:
                    raise ConfigError(
                        f"{self.path}: line {self._number}: expected the digest of the lines before it, got another: "
                        "the record was changed or damaged"
                    )
                yield from held
                held.clear()
            elif isinstance(entry, End):
                if self._is_last():
                    yield from held
                    return
                break
            elif isinstance(entry, Header):
                raise ConfigError(f"{self.path}: line {self._number}: expected no second header")
            else:
                held.append(entry)
        self.is_cut = True

    def _is_last(self) -> bool:
        """Return True if the next line is the final mark. Raises ConfigError if its digest is wrong."""
        before = self._digest.hexdigest()
        line = self._line()
        if not line.endswith(b"\n"):
            return False
        mark = self._entry(line)
        if not isinstance(mark, Mark) or mark.digest != before:
            raise ConfigError(f"{self.path}: line {self._number}: the record was changed or damaged")
        return True

    def _line(self) -> bytes:
        try:
            line = self._lines.readline(MAX_LINE_BYTES)
        except zstandard().ZstdError:
            if not self._number:
                raise ConfigError(f"{self.path}: expected a file compressed with zstd, this is none") from None
            raise ConfigError(f"{self.path}: damaged after line {self._number}") from None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(line) >= MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise ConfigError(f"{self.path}: line {self._number + 1}: longer than {MAX_LINE_BYTES >> 20} MiB")
        self._number += 1
        return line

    def _entry(self, line: bytes) -> AnyEntry:
        try:
            entry: AnyEntry = _decode(line)
        except DecodeError as error:
            raise ConfigError(f"{self.path}: line {self._number}: expected an entry of a record: {error}") from None
        self._digest.update(line)
        return entry


class _Decompressed(io.RawIOBase):
    """The decompressed content of a zstd file; it ends where a truncated file ends.

    The library's own stream reader would drop what it has not handed out yet when a truncated file ends.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._decompressor = zstandard().ZstdDecompressor().decompressobj(read_across_frames=True)
        self._held = memoryview(b"")  # decompressed, and not handed out yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._held:
            piece = self._file.read(PIECE_BYTES)
            if not piece:
                return 0
            self._held = memoryview(self._decompressor.decompress(piece))
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
