"""What plugins remember from one extension point to the next, within one pod's cycle."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class CycleState:
    """One pod's scratch space; a plugin writes under its own name and reads nobody else's.

    `skip_filter` and `skip_score` hold the plugins whose PreFilter or PreScore said Skip in this cycle.
    """

    __slots__ = ("_data", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self._data: dict[str, object] = {}  # plugin name -> what it wrote
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def write(self, key: str, value: object) -> None:
        self._data[key] = value

    def read(self, key: str, kind: type[T]) -> T:
        """The value under `key`; KeyError if it was never written, TypeError if it is of another kind."""
        value = self._data[key]
        if not isinstance(value, kind):
            raise TypeError(f"cycle state {key!r}: expected {kind.__name__}, got {type(value).__name__}")
        return value

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value under `key`, or None if it was never written."""
        return self.read(key, kind) if key in self._data else None
