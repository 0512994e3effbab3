"""Caches the apiserver's answers about users, so that a metrics collector that polls every second costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from kscheduler.clock import Clock

T = TypeVar("T")

ENTRIES = 1024


class _Kept(NamedTuple, Generic[T]):
    until: float  # when it expires, in seconds of the clock
    value: T


class AnswerCache(Generic[T]):
    """A cache whose entries expire. Its size is bounded: a new answer replaces the one not used for longest."""

    def __init__(self, clock: Clock, entries: int = ENTRIES) -> None:
        self._clock = clock
        self._most = entries
        self._entries: dict[Hashable, _Kept[T]] = {}  # the one not used for longest first

    def __len__(self) -> int:
        return len(self._entries)

    def known(self, key: Hashable) -> T | None:
        """Return the cached answer; None if there is none."""
        kept = self._get(key)
        return None if kept is None else kept.value

    async def answer(
        self, key: Hashable, slots: asyncio.Semaphore, ask: Callable[[], Awaitable[T]], ttl_s: Callable[[T], float]
    ) -> T:
        """Return the cached answer, or else call `ask` once a slot is free, and cache its answer.

        `ttl_s(answer)`: for how many seconds it is cached, 0: not at all.
        """
        if (kept := self._get(key)) is not None:
            return kept.value
        async with slots:
            if (kept := self._get(key)) is not None:  # another request may have asked while this one waited
                return kept.value
            value = await ask()
            self._entries.pop(key, None)
            if (seconds := ttl_s(value)) > 0:
                if len(self._entries) >= self._most:
                    del self._entries[next(iter(self._entries))]
                self._entries[key] = _Kept(self._clock.now() + seconds, value)
        return value

    def _get(self, key: Hashable) -> _Kept[T] | None:
        """Return the cached answer; None if there is none or it has expired."""
        kept = self._entries.pop(key, None)
        if kept is None or kept.until <= self._clock.now():
            return None
        self._entries[key] = kept
        return kept
