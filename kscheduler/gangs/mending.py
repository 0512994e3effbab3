"""Watches over broken gangs: some of their pods have a node, but fewer than the minimum, and others wait for one.

The queue tries a broken gang before others of its priority until its minimum is reached. A gang becomes broken only
after its decision: a binding was refused, a pod was deleted, this program was killed between two bindings. One that
stays so for longer than its timeout is stale, which is reported once. A pod whose binding is under way does not mend
it yet: if each binding is refused, the gang is broken from the first one on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kscheduler.clock import Clock
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import Stage, TrackedGang

PAUSE_S = 5.0  # until a stale gang that could not be reported is looked at again


class Mending:
    """`run` is a task.

    `waits(key)`: whether a pod of the gang waits for a node. `report(gang, seconds)` says that a gang has been broken
    for so long, and returns False if it may not be reported now. `timeout_s`: of gangs that have none of their own.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        waits: Callable[[GangKey], bool],
        report: Callable[[TrackedGang, float], bool],
        timeout_s: float,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._waits = waits
        self._report = report
        self._timeout_s = timeout_s
        self._clock = clock
        self.broken_since: dict[GangKey, float] = {}
        self.stale: set[GangKey] = set()  # those that were reported
        self._changed = asyncio.Event()

    def look(self, key: GangKey) -> None:
        """Take note of whether a gang is broken, or is so again if its bindings fail, after any change to it. O(1)."""
        tracked = self._registry.get(key)
        if tracked is not None and tracked.is_broken:
            if key not in self.broken_since:
                self.broken_since[key] = self._clock.now()
                self._changed.set()
        elif key in self.broken_since and not _may_break_again(tracked):
            del self.broken_since[key]
            self.stale.discard(key)

    def due(self, now: float) -> float | None:
        """Report the gangs that are stale by now. Returns when to call this again; None: after a further change."""
        soonest: float | None = None
        for key, since in self.broken_since.items():
            tracked = self._registry.get(key)
            if key in self.stale or tracked is None or tracked.gang is None:
                continue
            ends = since + (tracked.gang.timeout_s or self._timeout_s)
            if ends <= now:
                if tracked.is_broken and self._waits(key) and self._report(tracked, now - since):
                    self.stale.add(key)
                    continue
                ends = now + PAUSE_S
            soonest = ends if soonest is None else min(soonest, ends)
        return soonest

    async def run(self) -> None:
        while True:
            now = self._clock.now()
            until = self.due(now)
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it forgets to be cancelled if the event happens at the same time.
                async with asyncio.timeout(None if until is None else until - now):
                    await self._changed.wait()
            self._changed.clear()


def _may_break_again(tracked: TrackedGang | None) -> bool:
    """Return True if a gang has its minimum only because of pods that are not bound yet."""
    if tracked is None or tracked.gang is None or tracked.gang.is_basic:
        return False
    return 0 < tracked.placed - tracked.count(Stage.ASSUMED) < tracked.gang.min_members
