"""Takes readings on the scheduler's loop while somebody watches, and hands them to the page's loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from kscheduler.serving.live.readings import Reading

log = logging.getLogger(__name__)

PERIOD_S = 2.0
SHARE = 0.005  # of all time that readings may take
FIRST_S = 0.02  # after which somebody who begins to watch has a reading, at the earliest


class TakesReadings(Protocol):
    def take(self, views: Collection[str]) -> Reading: ...

    def forget(self) -> None: ...


class Feed:
    """Takes a reading every PERIOD_S, or fewer if they take long; none while nobody watches or the page is busy."""

    def __init__(
        self, reader: TakesReadings, stopwatch: Callable[[], float], deliver: Callable[[Reading], object]
    ) -> None:
        """Create a feed. `deliver` passes a reading on, and has to call `taken` on this loop when it was processed."""
        self._reader = reader
        self._stopwatch = stopwatch
        self._deliver = deliver
        self._views: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._is_taken = True
        self._has_failed = False
        self._next = 0.0  # when the next reading is due, by the loop's clock
        self._earliest = 0.0  # no reading before, or they would take more than their share

    def watch(self, views: frozenset[str]) -> None:
        """Set which views are watched; none ends the readings. A new view has its first reading soon."""
        if not self._views:
            self._reader.forget()
        is_new = not views <= self._views
        self._views = views
        if is_new:
            self._next = min(self._next, max(self._earliest, asyncio.get_running_loop().time() + FIRST_S))
        self._arm()

    def taken(self) -> None:
        """Note that the last reading was processed, so that there may be another one."""
        self._is_taken = True
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._views and self._is_taken:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(self._next - loop.time(), 0.0), self._take)

    def _take(self) -> None:
        self._timer = None
        started = self._stopwatch()
        try:
            reading = self._reader.take(self._views)
        except Exception:
            if not self._has_failed:
                log.exception("the page's figures could not be read; this is reported once")
            self._has_failed, reading = True, None
        took = self._stopwatch() - started
        now = asyncio.get_running_loop().time()
        self._earliest = now + took / SHARE
        self._next = max(self._earliest, now + PERIOD_S)
        if reading is None:
            self._arm()
        else:
            self._is_taken = False
            self._deliver(reading)
