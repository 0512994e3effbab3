"""Values that repeat over the rows, such as labels: each distinct value once, and its index for each row."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

NOTHING = -1  # the index of a row without the value
SPARE_VALUES = 1_024  # values nobody uses any more, beyond as many again as there are rows


class IndexedColumn:
    """The host's side: values are only ever added, so a guest that knows the first n is told the rest."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}  # value, or what stands for it -> its place in `values`
        self._rows: array[int] = array("i")  # row -> index

    def set(self, row: int, key: Hashable | None, value: Any) -> None:
        """The value of a row; `key` stands for it and is None for a row without one."""
        while len(self._rows) <= row:
            self._rows.append(NOTHING)
        if key is None:
            self._rows[row] = NOTHING
            return
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.values)
            self.values.append(value)
        self._rows[row] = found

    @property
    def is_overgrown(self) -> bool:
        """Are there so many old values that it is time to begin anew?"""
        return len(self.values) > 2 * len(self._rows) + SPARE_VALUES

    def write(self, known: int, rows: Sequence[int] | None) -> dict[str, Any]:
        """The column of a message, for whoever knows so many values; `rows` None for all."""
        picked = self._rows if rows is None else array("i", [self._rows[row] for row in rows])
        written: dict[str, Any] = {"n": known} if known else {}
        return written | {"v": self.values[known:], "i": picked.tobytes()}
