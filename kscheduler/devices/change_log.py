"""A log of changed things, for readers that want to know what has changed since they last looked.

Each reader remembers the number of changes, and later asks for what has changed since. `snapshot.row_log` is the same
for rows of the node table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

MAX_KEPT = 8_192  # a reader that missed more changes has to look at everything

T = TypeVar("T", bound=Hashable)


class ChangeLog(Generic[T]):
    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._changed: list[T] = []  # by the latest changes, in order
        self._first = 0  # number of the first of them
        self.count = 0  # changes so far: where a reader that has seen all of them goes on

    def add(self, *changed: T) -> None:
        self.extend(changed)

    def extend(self, changed: Iterable[T]) -> None:
        self._changed.extend(changed)
        surplus = len(self._changed) - self._most
        if surplus > self._most:  # seldom, since it moves all that is kept
            del self._changed[:surplus]
            self._first += surplus
        self.count = self._first + len(self._changed)

    def add_all(self) -> None:
        """Note that anything may have changed."""
        self._changed.clear()
        self.count += 1
        self._first = self.count

    def since(self, count: int) -> list[T] | None:
        """Return what has changed after the first `count` changes, each once; None if it may be anything."""
        if count < self._first:
            return None
        return list(dict.fromkeys(self._changed[count - self._first :]))
