"""Lines of kube-scheduler-simulator's recorder: JSON objects with `time`, `event` and `resource`.

A deletion has only the object's name, so the last version of each object that exists is remembered.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from kscheduler.api.objects import APIObject
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.record.entries import OBJECTS_ONLY, Change, ChangeType, Header, Readable, Synced
from kscheduler.record.imports.objects import change_of, kind_of, read_object
from kscheduler.record.reader import MAX_LINE_BYTES


class _Line(msgspec.Struct, frozen=True):
    time: Annotated[datetime.datetime, msgspec.Meta(tz=True)]  # others may lie before the first year
    event: Literal["Add", "Update", "Delete"]
    resource: dict[str, Any]


_decode = json_decoder(_Line)


class SimulatorLines:
    """One file of lines; an `AnyRecord`. Kinds that no record contains, such as PriorityClasses, are left out."""

    def __init__(self, path: Path) -> None:
        """Read the first line. Raises ConfigError if it is no line of that recorder."""
        self.path = path
        self.is_cut = False
        first = next(self._lines(), None)
        if first is None:
            raise ConfigError(
                f"{path}: expected lines of kube-scheduler-simulator's recorder, it is cut off in the first"
            )
        self._started_s = first.time.timestamp()
        self.header = Header(OBJECTS_ONLY, "kube-scheduler-simulator", self._started_s)
        self._objects: dict[tuple[str, str], APIObject] = {}  # (plural, key) -> last version of what exists

    def __iter__(self) -> Iterator[Readable]:
        """Yield the changes. Raises ConfigError, naming the line, for one that cannot be read."""
        yield Synced(0.0)
        latest_s = 0.0
        for number, line in enumerate(self._lines(), 1):
            latest_s = max(latest_s, line.time.timestamp() - self._started_s)
            change = self._change(number, line, round(latest_s, 6))
            if change is not None:
                yield change

    def _change(self, number: int, line: _Line, at: float) -> Change | None:
        resource = kind_of(line.resource)
        if resource is None:
            return None
        obj = read_object(f"{self.path}: line {number}", resource, line.resource)
        place = (resource.plural, obj.key)
        if line.event == "Delete":
            known = self._objects.pop(place, None)
            return None if known is None else change_of(at, resource, "DELETED", known)
        kind: ChangeType = "MODIFIED" if place in self._objects else "ADDED"
        self._objects[place] = obj
        return change_of(at, resource, kind, obj)

    def _lines(self) -> Iterator[_Line]:
        with self.path.open("rb") as file:
            number = 0
            while text := file.readline(MAX_LINE_BYTES):
                number += 1
                if not text.endswith(b"\n"):
                    if len(text) >= MAX_LINE_BYTES:
                        raise ConfigError(f"{self.path}: line {number}: longer than {MAX_LINE_BYTES >> 20} MiB")
                    self.is_cut = True
                    return
                yield self._decoded(number, text)

    def _decoded(self, number: int, text: bytes) -> _Line:
        try:
            return _decode(text)
        except DecodeError as error:
            raise ConfigError(
                f"{self.path}: line {number}: expected a line of kube-scheduler-simulator's recorder: {error}"
            ) from None
