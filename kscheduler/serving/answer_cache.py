"""A cache of the apiserver's answers about users, so that a metrics collector that comes each second costs little."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kscheduler.clock import Clock

T = TypeVar("T")

ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    until: float  # expiry, in seconds of the clock
    value: T


class AnswerCache(Generic[T]):
    """A cache with expiry. When full it drops the oldest answer, so a client that tries many keys costs no memory."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Hashable, Kept[T]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Kept[T] | None:
        """Return the cached answer; None if there is none or it has expired."""
        kept = self._entries.get(key)
        if kept is not None and kept.until <= self._clock.now():
            del self._entries[key]
            return None
        return kept

    def put(self, key: Hashable, value: T, ttl_s: float) -> None:
        """Cache an answer for `ttl_s` seconds; 0 removes the key's earlier answer only."""
        self._entries.pop(key, None)
        if ttl_s <= 0:
            return
        if len(self._entries) >= ENTRIES:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = Kept(self._clock.now() + ttl_s, value)
