"""The nodes as the page draws them: their use as one byte for each node and resource, kept up to date row by row.

The bytes are those of a report's `NodeHistory`: used / allocatable in 250ths, at most 254; 255 for a node without the
resource.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.api.topology_labels import in_shown_order
from kscheduler.serving.live.readings import NodeReading

FULL, HIGHEST, NO_CAPACITY = 250, 254, 255
PIECE = 500  # rows worked on at once; after that the scheduler's thread has its turn
PAUSE_S = 0.001
MAX_LABELS, MAX_VALUES = 8, 200  # labels by which nodes can be grouped, and different values of one
MOST_KEYS = 100  # different labels looked at


class NodePicture:
    def __init__(self) -> None:
        self.version = 0  # of names, labels and resources; 0: there was no reading yet
        self.use_version = 0
        self._names: list[str] = []  # by row
        self._resources: tuple[str, ...] = ()
        self._groups: list[dict[str, Any]] = []
        self._requested: list[array[int]] = []  # of each resource, by row
        self._allocatable: list[array[int]] = []
        self._use: list[bytearray] = []

    async def update(self, reading: NodeReading) -> None:
        """Apply a reading, in pieces between which other threads run."""
        if reading.rows is None:
            await self._replace(reading)
        else:
            await self._change(reading, reading.rows)
        self.use_version += 1

    async def _replace(self, reading: NodeReading) -> None:
        names = reading.names or []
        groups = await _groups(reading.labels or [])
        requested, allocatable = list(map(_numbers, reading.requested)), list(map(_numbers, reading.allocatable))
        use = [bytearray(len(names)) for _ in reading.resources]
        for start in range(0, len(names), PIECE):
            _count(use, requested, allocatable, range(start, min(start + PIECE, len(names))))
            await asyncio.sleep(PAUSE_S)
        self._names, self._resources, self._groups = names, reading.resources, groups
        self._requested, self._allocatable, self._use = requested, allocatable, use
        self.version += 1

    async def _change(self, reading: NodeReading, packed: bytes) -> None:
        rows: array[int] = array("i")
        rows.frombytes(packed)
        for columns, changed in ((self._requested, reading.requested), (self._allocatable, reading.allocatable)):
            for column, amounts in zip(columns, map(_numbers, changed), strict=True):
                for row, amount in zip(rows, amounts, strict=True):
                    if row < len(column):
                        column[row] = amount
        for start in range(0, len(rows), PIECE):
            known = [row for row in rows[start : start + PIECE] if row < len(self._names)]
            _count(self._use, self._requested, self._allocatable, known)
            await asyncio.sleep(PAUSE_S)

    def shares(self) -> dict[str, float | None]:
        """Return resource -> share of the allocatable amounts of all nodes that is requested; None if there is none."""
        found: dict[str, float | None] = {}
        for name, requested, allocatable in zip(self._resources, self._requested, self._allocatable, strict=True):
            total = sum(allocatable)
            found[name] = round(sum(requested) / total, 5) if total > 0 else None
        return found

    def description(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "names": self._names,
            "resources": self._resources,
            "labels": self._groups,
        }

    def use(self) -> dict[str, Any]:
        used = {name: bytes(use) for name, use in zip(self._resources, self._use, strict=True)}
        return {"version": self.version, "used": used}


def _count(
    use: Sequence[bytearray], requested: Sequence[array[int]], allocatable: Sequence[array[int]], rows: Sequence[int]
) -> None:
    """Write the bytes of these rows."""
    for page, taken, all_of_it in zip(use, requested, allocatable, strict=True):
        for row in rows:
            has = all_of_it[row]
            page[row] = min(HIGHEST, (taken[row] * 2 * FULL + has) // (2 * has)) if has > 0 else NO_CAPACITY


def _numbers(packed: bytes) -> array[int]:
    found: array[int] = array("q")
    found.frombytes(packed)
    return found


async def _groups(labels: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the labels by which nodes can be grouped, those with a few different values, regions and zones first."""
    values: dict[str, Counter[str]] = {}
    for at, each in enumerate(labels):
        for key, value in each.items():
            counts = values.get(key)
            if counts is None:
                if len(values) >= MOST_KEYS:
                    continue
                counts = values[key] = Counter()
            if len(counts) <= MAX_VALUES or value in counts:
                counts[value] += 1
        if at % PIECE == PIECE - 1:
            await asyncio.sleep(PAUSE_S)
    useful = [key for key, counts in values.items() if 1 < len(counts) <= MAX_VALUES]
    found = []
    for key in in_shown_order(useful)[:MAX_LABELS]:
        index = {value: at for at, value in enumerate(sorted(values[key]))}
        of_node = [index.get(each[key], -1) if key in each else -1 for each in labels]
        found.append({"key": key, "values": list(index), "of_node": of_node})
        await asyncio.sleep(PAUSE_S)
    return found
