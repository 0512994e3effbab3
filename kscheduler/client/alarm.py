"""A timer that is postponed often, such as the timeout of an answer, which starts again with each request.

Arming a timer and cancelling it would cost each request several microseconds. Here one timer of the event loop serves
many requests: if it fires too early, it is armed again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

EARLY_S = 0.001  # the event loop's timers may fire that much too early


class Alarm:
    """Calls `ring` once at the time that was set last. Use it from one event loop."""

    __slots__ = ("_at_s", "_due_s", "_loop", "_ring", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self._loop = loop
        self._ring = ring
        self._at_s = math.inf  # when to ring
        self._due_s = math.inf  # when the timer comes due
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        """Call `ring` at this time of the loop's clock instead of the time set before; infinity means never."""
        self._at_s = at_s
        if at_s < self._due_s:
            self._arm()

    def cancel(self) -> None:
        """Cancel the call of `ring` and release the timer."""
        self._at_s = self._due_s = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = self._at_s
        self._timer = self._loop.call_at(self._at_s, self._is_due)

    def _is_due(self) -> None:
        self._timer = None
        self._due_s = math.inf
        if self._at_s == math.inf:
            return
        if self._loop.time() < self._at_s - EARLY_S:
            self._arm()
            return
        self._at_s = math.inf
        self._ring()
