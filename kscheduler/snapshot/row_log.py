"""A log of changed rows (nodes), for readers that want to know what has changed since they last looked.

Each reader remembers the number of changes, and later asks for the rows changed since.
"""

from __future__ import annotations

from array import array

MAX_KEPT = 8_192  # a reader that missed more changes has to read all rows


class RowLog:
    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._rows: array[int] = array("i")  # of the latest changes, in order
        self._first = 0  # number of the first of them
        self.count = 0  # changes so far: where a reader that has seen all of them goes on

    def add(self, row: int) -> None:
        self.count += 1
        if len(self._rows) >= 2 * self._most:
            del self._rows[: self._most]
            self._first += self._most
        self._rows.append(row)

    def since(self, count: int) -> list[int] | None:
        """Return the rows (nodes) changed after the first `count` changes, ascending; None if some were dropped."""
        if count < self._first:
            return None
        return sorted(set(self._rows[count - self._first :]))
