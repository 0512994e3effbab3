"""Columns whose values repeat over many nodes, such as labels: each distinct value once, and an index for each node."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

NOTHING = -1  # the index of a row without the value
SPARE_VALUES = 1_024  # values without a row that are kept, beyond the number of rows


class IndexedColumn:
    """A column with a value for each node, sent to guests as a list of distinct values and an index for each node.

    Values are only added to the list, so a guest that has the first n gets the rest.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}  # key of a value -> its index in `values`
        self._rows: array[int] = array("i")  # row -> index

    def set(self, row: int, key: Hashable | None, value: Any) -> None:
        """Set the value of a node, by its row in the node table.

        `key` is hashable and equal for equal values; None means that the node has no value.
        """
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
        """True if so many values are unused that the column should be built again from scratch."""
        return len(self.values) > 2 * len(self._rows) + SPARE_VALUES

    def write(self, known: int, rows: Sequence[int] | None) -> dict[str, Any]:
        """Return the column for these rows (nodes), None for all, as a part of a message.

        `known`: how many of the distinct values the guest has already.
        """
        picked = self._rows if rows is None else array("i", [self._rows[row] for row in rows])
        written: dict[str, Any] = {"n": known} if known else {}
        return written | {"v": self.values[known:], "i": picked.tobytes()}
