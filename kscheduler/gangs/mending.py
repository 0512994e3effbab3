"""Watches over broken gangs: some of their pods have a node, but fewer than the minimum, and others wait for one.

The queue tries a broken gang before others of its priority until its minimum is reached. A gang becomes broken only
after its decision: a binding was refused, a pod was deleted, this program was killed between two bindings. One that
stays so for longer than its timeout is stale, which is reported once. A pod whose binding is under way does not mend
it yet: if each binding is refused, the gang is broken from the first one on, and so it is from its first bound pod on
if the others' bindings are neither carried out nor refused. If all that it lacks is under way when its timeout ends, it
is reported once one of these bindings has failed, or when none was carried out for PAUSE_S: a large gang takes its
time, but their outcome may stay in doubt for minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable

from kscheduler.clock import Clock
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import TrackedGang

PAUSE_S = 5.0  # until a gang whose timeout is over is looked at again, if it was not reported


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
        self.broken_since: dict[GangKey, float] = {}  # gangs of which too few pods are bound
        self.stale: set[GangKey] = set()  # those that were reported
        # Of gangs whose timeout is over and whose bindings are under way: how many pods were bound at the last look.
        self._bound: dict[GangKey, int] = {}
        self._changed = asyncio.Event()  # something may be due before `_next`
        self._next = math.inf  # when `run` looks at all broken gangs

    def look(self, key: GangKey) -> None:
        """Take note of whether a gang is broken, or will be if its bindings fail, after any change to it. O(1)."""
        tracked = self._registry.get(key)
        if tracked is not None and tracked.gang is not None and tracked.is_half_bound:
            since = self.broken_since.get(key)
            if since is None:
                since = self.broken_since[key] = self._clock.now()
            if since + (tracked.gang.timeout_s or self._timeout_s) < self._next and key not in self.stale:
                self._changed.set()
        elif key in self.broken_since:
            del self.broken_since[key]
            self.stale.discard(key)
            self._bound.pop(key, None)

    def due(self, now: float) -> float | None:
        """Report the gangs that are stale by now. Returns when to call this again; None: after a further change."""
        soonest: float | None = None
        for key, since in self.broken_since.items():
            tracked = self._registry.get(key)
            if key in self.stale or tracked is None or tracked.gang is None:
                continue
            ends = since + (tracked.gang.timeout_s or self._timeout_s)
            if ends <= now:
                if self._is_stale(tracked) and self._report(tracked, now - since):
                    self.stale.add(key)
                    continue
                ends = now + PAUSE_S
            soonest = ends if soonest is None else min(soonest, ends)
        return soonest

    async def run(self) -> None:
        while True:
            now = self._clock.now()
            until = self.due(now)
            self._next = math.inf if until is None else until
            with contextlib.suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it forgets to be cancelled if the event happens at the same time.
                async with asyncio.timeout(None if until is None else until - now):
                    await self._changed.wait()
            self._changed.clear()

    def _is_stale(self, tracked: TrackedGang) -> bool:
        """Return True if a gang whose timeout is over is to be reported."""
        if tracked.is_broken:
            return self._waits(tracked.key)
        before = self._bound.get(tracked.key)
        self._bound[tracked.key] = tracked.bound
        return before == tracked.bound
