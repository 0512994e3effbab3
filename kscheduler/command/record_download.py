"""Implements `kscheduler record --from URL --out FILE`: downloads the record that a running scheduler writes of itself.

Part 1 of the record becomes FILE, part 2 FILE.2, as on the scheduler's own disk. A file always holds the beginning of
its part, so the same command, given again, goes on where it ended. What is no such beginning is never overwritten.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from kscheduler.clock import Clock
from kscheduler.command.flags.record import RECORD_PATH, RecordOptions
from kscheduler.command.scheduler_endpoint import Answer, SchedulerEndpoint
from kscheduler.errors import APIError, ConfigError, DecodeError, Gone, Unreachable
from kscheduler.input.decoding import json_decoder
from kscheduler.record.listing import STARTED, Listing, Part
from kscheduler.record.reader import RecordReader
from kscheduler.record.recorder import part_of

PIECE_BYTES = 256 << 10
POLL_S = 1.0  # between questions for what was added, which the scheduler writes as often

NOT_OVERWRITTEN = "nothing was overwritten: give another --out"

_decode = json_decoder(Listing)


def download(options: RecordOptions, clock: Clock) -> int:
    """Download the record, print a summary, and return the exit code.

    Raises ConfigError for wrong options or unusable files, APIError if the scheduler refuses a request.
    """
    out = Path(options.out)
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: expected a directory {out.parent}, there is none")
    copy = RecordCopy(SchedulerEndpoint(options, clock), out)
    with _stopped_by_signals() as stopping:
        copy.is_stopped = stopping.is_set
        copy.update()
        if options.follows:
            follow(copy, stopping, None if options.duration_s is None else clock.now() + options.duration_s, clock)
    _print_summary(copy)
    return 0


def follow(copy: RecordCopy, stopping: threading.Event, until: float | None, clock: Clock) -> None:
    """Download what is added, until stopped, or the record has ended. Go on if the scheduler does not answer."""
    print("following the record; Ctrl-C ends it", file=sys.stderr)
    failed = ""
    while not copy.listing.failure and not (until is not None and clock.now() >= until):
        if stopping.wait(POLL_S):
            return
        try:
            copy.update()
            failed = ""
        except APIError as error:
            if not error.is_transient:
                raise
            if not failed:
                print(f"kscheduler: {error}; trying again", file=sys.stderr)
            failed = str(error)


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set while the block runs, so that a download ends between two pieces."""
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_summary(copy: RecordCopy) -> None:
    listing = copy.listing
    print(f"downloaded {copy.received / 1024:,.0f} KiB of the record that began at {_time(listing.started)}")
    if copy.files:
        print(f"{', '.join(str(path) for path in copy.files)}: read by `kscheduler replay {copy.files[0]}`")
    if listing.failure:
        print(f"kscheduler: the record has ended early: {listing.failure}", file=sys.stderr)
    if missing := copy.missing():
        print(
            f"kscheduler: {missing} removed before all of it was downloaded (--record-keep-parts): replay needs all "
            "parts from the first on, simulate --record takes any of them",
            file=sys.stderr,
        )


class RecordCopy:
    """The files to which a record is downloaded."""

    listing: Listing  # of the last update

    def __init__(self, endpoint: SchedulerEndpoint, out: Path) -> None:
        self._endpoint = endpoint
        self._out = out
        self._started: float | None = None  # of the record that the files belong to; None before the first update
        self._removed: set[int] = set()  # numbers of parts that were removed before they were downloaded
        self.received = 0  # bytes written to the files
        self.is_stopped: Callable[[], bool] = bool  # asked between two pieces

    @property
    def files(self) -> list[Path]:
        """The files that hold parts of the record, in ascending order."""
        return [path for _, path in sorted(self._numbered()) if _started_of(path) == self._started]

    def update(self) -> None:
        """Download what the files lack.

        Raises ConfigError, before anything is written, if they are of another record, and APIError as requests do.
        """
        self.listing = listing = self._list()
        self._check_start(listing.started)
        for part in listing.parts:
            if self.is_stopped():
                return
            if part.number not in self._removed:
                self._update_part(part)

    def missing(self) -> str:
        """Return words for the parts that were removed before they were downloaded; "" if there are none."""
        first, parts = self.listing.first, self.listing.parts
        kept = parts[0].number if parts else first
        here = {number: path for number, path in self._numbered() if first <= number < kept}
        lacks = self._removed | set(range(first, kept)).difference(here)
        if here and _is_cut(here[max(here)]):  # the last one, when the record was downloaded before
            lacks.add(max(here))
        if not lacks:
            return ""
        low, high = min(lacks), max(lacks)
        return f"part {low} was" if low == high else f"parts from {low} to {high} were"

    def _list(self) -> Listing:
        answer = self._endpoint.get(RECORD_PATH)
        try:
            return _decode(answer.encode())
        except DecodeError as error:
            text = self._endpoint.hidden(answer)[:200]
            raise APIError(f"{self._endpoint.shown}: expected the parts of a record, got {text!r}: {error}") from error

    # --- the files ----------------------------------------------------------------------------------------------

    def _numbered(self) -> Iterator[tuple[int, Path]]:
        """Yield number and path of every file that is named like a part."""
        out = self._out
        named = re.compile(rf"{re.escape(out.stem)}(?:\.([1-9][0-9]{{0,5}}))?{re.escape(out.suffix)}")
        for path in out.parent.iterdir():
            if found := named.fullmatch(path.name):
                yield int(found[1] or 1), path

    def _check_start(self, started: float) -> None:
        """Raise ConfigError if the record is another than that of the last update, or of a file that exists."""
        if self._started is None:
            for _, path in sorted(self._numbered()):
                if _started_of(path) not in (None, started):
                    raise self._another(path, _started_of(path), started)
        elif self._started != started:
            raise self._another(self._out, self._started, started)
        self._started = started

    def _another(self, path: Path, begun: float | None, started: float) -> ConfigError:
        return ConfigError(
            f"{path}: expected the record that {self._endpoint.shown} began at {_time(started)}, got one that began at "
            f"{_time(begun or 0.0)}; {NOT_OVERWRITTEN}"
        )

    # --- one part -----------------------------------------------------------------------------------------------

    def _update_part(self, part: Part) -> None:
        path = part_of(self._out, part.number)
        size = path.stat().st_size if path.exists() else 0
        # The beginning of a part, if its header is not complete, is compared with what the scheduler has.
        offset = size if _started_of(path) is not None else 0
        if size > part.bytes:
            raise ConfigError(
                f"{path}: expected at most the {part.bytes:,} bytes that part {part.number} has now, got {size:,}; "
                f"{NOT_OVERWRITTEN}"
            )
        if offset == part.bytes:
            return
        try:
            with self._endpoint.open(f"{RECORD_PATH}/{part.number}", {"Range": f"bytes={offset}-"}) as answer:
                self._check_answer(answer, part, offset)
                with path.open("r+b" if path.exists() else "x+b") as file:
                    self._write(file, answer, part, offset, size - offset)
        except Gone:
            self._removed.add(part.number)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error

    def _check_answer(self, answer: Answer, part: Part, offset: int) -> None:
        """Raise an error unless the answer has the record's bytes from `offset` on."""
        if answer.header(STARTED) != repr(self._started):
            raise ConfigError(
                f"{self._endpoint.shown}: expected part {part.number} of the record that began at "
                f"{_time(self._started or 0.0)}, got one of another record: was the scheduler restarted? "
                f"{NOT_OVERWRITTEN}"
            )
        if answer.length is None or not answer.header("Content-Range").startswith(f"bytes {offset}-"):
            raise APIError(
                f"{self._endpoint.shown}: expected the bytes of part {part.number} from {offset:,} on, got other ones"
            )

    def _write(self, file: BinaryIO, answer: Answer, part: Part, offset: int, known: int) -> None:
        """Write the answer to the file, from `offset` on; its first `known` bytes have to be in the file already."""
        length = answer.length or 0
        file.seek(offset)
        got = 0
        while got < length and not self.is_stopped():
            piece = answer.read(min(PIECE_BYTES, length - got))
            if not piece:
                raise Unreachable(
                    f"{self._endpoint.shown}: expected {length:,} bytes of part {part.number}, got {got:,}: the "
                    "connection broke, and the same command goes on from there"
                )
            got += len(piece)
            same = file.read(min(known, len(piece))) if known else b""
            if not piece.startswith(same):
                raise ConfigError(
                    f"{file.name}: expected a beginning of part {part.number} of the record, got other content; "
                    f"{NOT_OVERWRITTEN}"
                )
            known -= len(same)
            file.write(piece[len(same) :])
            self.received += len(piece) - len(same)


def _started_of(path: Path) -> float | None:
    """Return the start of the record that a file belongs to; None if it has no complete header."""
    try:
        return RecordReader(path).header.started
    except ConfigError:
        return None


def _is_cut(path: Path) -> bool:
    reader = RecordReader(path)
    for _ in reader:
        pass
    return reader.is_cut


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")
