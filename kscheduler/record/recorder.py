"""Records a cluster: lists and watches all objects that decisions depend on, and writes every change. Only reads them.

1. List all kinds.  2. Write all objects, and an entry that says that these were all.  3. Write changes as they happen,
until stopped. A file that has become too large is closed and another begun, again with all objects, so that each file
can be read by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kscheduler import __version__
from kscheduler.api.objects import APIObject
from kscheduler.client.concurrency import cancel_and_wait, run_together, wait_event
from kscheduler.client.informer import Informer
from kscheduler.client.kinds import PODS, UNFINISHED_PODS
from kscheduler.client.outages import Outages
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import ConfigError
from kscheduler.record.entries import OBJECTS_ONLY, Change, ChangeType, End, Header, Synced
from kscheduler.record.kept_fields import encoded
from kscheduler.record.recorded_kinds import may_be_unknown, name_of, recorded_kinds
from kscheduler.record.writer import RecordWriter

LOOK_S = 0.1  # seconds between checks whether everything is listed
FLUSH_S = 1.0  # seconds between writes to the file; at most this much is lost if the recorder is killed


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """Where to record to, and how much.

    `configuration`: the scheduler's, as YAML without secrets; "" if it is not known.
    """

    path: Path
    configuration: str = ""
    part_bytes: int = 0  # size at which another file is begun; 0: no limit
    keep_parts: int = 0  # how many of the newest files are kept; 0: all
    release: Release | None = None  # of Kubernetes, which the scheduler emulates; None: not known


class Recorder:
    """Records a cluster from `run` until its task is cancelled or `stop` is called."""

    def __init__(self, client: Client, clock: Clock, rng: random.Random, options: RecorderOptions) -> None:
        self._clock = clock
        self._options = options
        outages = Outages(clock)
        self._informers = [
            Informer(
                client,
                kind,
                _Changes(name_of(kind), self._write),
                clock=clock,
                rng=rng,
                field_selector=UNFINISHED_PODS if kind is PODS else "",
                may_be_unknown=may_be_unknown(kind),
                outages=outages,
            )
            for kind in recorded_kinds(options.release or DEFAULT_RELEASE)
        ]
        self._writer: RecordWriter | None = None  # None until all kinds are listed
        self._number = 0  # of the current file
        self._started_s = 0.0  # monotonic time of the current file's header
        self._stopping = asyncio.Event()
        self._failure: ConfigError | None = None  # the error of a failed write
        self.parts: list[Path] = []  # files that this recorder wrote and kept, oldest first
        self.changes = 0  # changes written since everything was listed
        self.bytes = 0  # total size of the closed files

    @property
    def objects(self) -> dict[str, int]:
        """Name of each kind -> how many objects of it exist now; kinds without objects are left out."""
        return {name_of(each.resource): len(each.store) for each in self._informers if each.store}

    @property
    def unlisted(self) -> dict[str, str]:
        """Name of each kind that has not been listed yet -> the last error, or ""."""
        waiting = [each for each in self._informers if not each.synced.is_set()]
        return {name_of(each.resource): str(each.last_error or "") for each in waiting}

    def stop(self) -> None:
        """Make `run` close the file and return."""
        self._stopping.set()

    async def run(self, on_begun: Callable[[], object] = bool) -> None:
        """Record until stopped. Raises ConfigError if the file cannot be written.

        `on_begun` is called once everything is listed.
        """
        watching = asyncio.ensure_future(run_together(*(each.run() for each in self._informers)))
        recording = asyncio.ensure_future(self._record(on_begun))
        try:
            await asyncio.wait({watching, recording}, return_when=asyncio.FIRST_COMPLETED)
            for task in (watching, recording):
                if task.done():
                    task.result()
        finally:
            await cancel_and_wait(watching, recording)
            self._close()

    async def _record(self, on_begun: Callable[[], object]) -> None:
        while self.unlisted:
            if await wait_event(self._stopping, LOOK_S):
                return
        writer = self._begin_part()
        on_begun()
        while not await wait_event(self._stopping, FLUSH_S):
            writer.flush()
            if 0 < self._options.part_bytes <= writer.bytes:
                self._close()
                writer = self._begin_part()
        if self._failure is not None:
            raise self._failure

    # --- parts ----------------------------------------------------------------------------------------------------

    def _begin_part(self) -> RecordWriter:
        """Open the next file and write all current objects. Nothing is awaited, so no change can happen in between."""
        number, path = next_part(self._options.path, self._number)
        writer = self._writer = RecordWriter(path)
        self._number = number
        self.parts.append(path)
        self._started_s = self._clock.now()
        options, started = self._options, self._clock.wall()
        version = "" if options.release is None else options.release.version
        writer.write(Header(OBJECTS_ONLY, __version__, started, number, options.configuration, version))
        for informer in self._informers:
            for obj in informer.store.values():
                writer.write(Change(0.0, name_of(informer.resource), "ADDED", encoded(obj)))
        writer.write(Synced(0.0))
        writer.flush()
        while 0 < self._options.keep_parts < len(self.parts):
            self.parts.pop(0).unlink(missing_ok=True)
        return writer

    def _write(self, resource: str, kind: ChangeType, obj: APIObject) -> None:
        if self._writer is None:  # not begun yet: the object will be written with all others
            return
        self.changes += 1
        try:
            self._writer.write(Change(self._at, resource, kind, encoded(obj)))
        except ConfigError as error:  # raised here, it would only be logged by the informer
            self._failure = error
            self._stopping.set()

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            with writer:
                if self._failure is None:
                    writer.write(End(self._at))
        except ConfigError:
            if self._failure is None:
                raise
        self.bytes += writer.bytes

    @property
    def _at(self) -> float:
        return round(self._clock.now() - self._started_s, 6)


class _Changes:
    """Writes the changes that an informer reports; an event handler for one kind."""

    def __init__(self, resource: str, write: Callable[[str, ChangeType, APIObject], None]) -> None:
        self._resource = resource
        self._write = write

    def on_add(self, obj: APIObject) -> None:
        self._write(self._resource, "ADDED", obj)

    def on_update(self, old: APIObject, new: APIObject) -> None:
        self._write(self._resource, "MODIFIED", new)

    def on_delete(self, obj: APIObject) -> None:
        self._write(self._resource, "DELETED", obj)


def next_part(path: Path, after: int = 0) -> tuple[int, Path]:
    """Return number and path of the first file after number `after` that does not exist yet.

    The files are `run.zst`, `run.2.zst`, `run.3.zst`, ...
    """
    number = after + 1
    while (part := part_of(path, number)).exists():
        number += 1
    return number, part


def part_of(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_suffix(f".{number}{path.suffix}")
