"""A cluster in memory that is recorded in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.record.entries import Change, Readable, Synced
from kscheduler.record.reader import RecordReader
from kscheduler.record.recorder import Recorder, RecorderOptions
from kscheduler.record.writer import LEVEL, RecordWriter
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual


class OnFullDisk(RecordWriter):
    """Creates its file, and then finds no space for anything in it."""

    def __init__(self, path: Path, *, level: int = LEVEL) -> None:
        super().__init__(path, level=level)
        self._file.close()
        self._file = Path("/dev/full").open("wb")  # noqa: SIM115 (closed as the file would be)


Play = Callable[[Cluster], Coroutine[Any, Any, None]]


def record(options: RecorderOptions, prepare: Callable[[Cluster], object], play: Play) -> Recorder:
    """Record a cluster that `prepare` fills, while `play` changes it; return the recorder when it has ended."""

    async def recorded() -> Recorder:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = Cluster(clock)
        prepare(cluster)
        recorder = Recorder(cluster.client(), clock, random.Random(1), options)
        begun = asyncio.Event()
        recording, beginning = asyncio.ensure_future(recorder.run(begun.set)), asyncio.ensure_future(begun.wait())
        try:
            await asyncio.wait({recording, beginning}, return_when=asyncio.FIRST_COMPLETED)
            if beginning.done():
                await play(cluster)
                recorder.stop()
            await recording
        finally:
            await cancel_and_wait(recording, beginning)
        return recorder

    return run_virtual(recorded())


def entries_of(path: Path) -> list[str]:
    """The entries in short: `0 ADDED nodes n0`, `synced`."""
    return [_brief(entry) for entry in RecordReader(path)]


def _brief(entry: Readable) -> str:
    if isinstance(entry, Synced):
        return "synced"
    assert isinstance(entry, Change)
    name = bytes(entry.object).split(b'"name":"')[1].split(b'"')[0].decode()
    return f"{entry.at:g} {entry.type} {entry.resource} {name}"
