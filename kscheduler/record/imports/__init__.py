"""Reads what other programs record of a cluster, as if it were a record.

`open_record` recognises a file by its first bytes: our own records, the lines of kube-scheduler-simulator's recorder,
traces of SimKube (version 2) and snapshots of KAI-Scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from kscheduler.errors import ConfigError
from kscheduler.input.input_files import check_regular
from kscheduler.record.entries import Header, Readable
from kscheduler.record.kinds import BEGINNING_BYTES, ZIP, is_msgpack_map
from kscheduler.record.reader import RecordReader


class AnyRecord(Protocol):
    """A record, or what stands for one."""

    header: Header
    is_cut: bool  # the end is missing; known after the iteration

    def __iter__(self) -> Iterator[Readable]: ...


def open_record(path: Path) -> AnyRecord:
    """Open a record or a file of another program. Raises ConfigError, naming the file, if it is neither."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            first = file.read(BEGINNING_BYTES)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if first.startswith(ZIP):
        from kscheduler.record.imports.kai import KaiSnapshot

        return KaiSnapshot(path)
    if first[:1] == b"{":
        from kscheduler.record.imports.simulator_lines import SimulatorLines

        return SimulatorLines(path)
    if is_msgpack_map(first):
        from kscheduler.record.imports.simkube import SimKubeTrace

        return SimKubeTrace(path)
    return RecordReader(path)
