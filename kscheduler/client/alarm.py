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

    __slots__ = ("_loop", "_ring", "_timer", "at_s", "due_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], object]) -> None:
        self._loop = loop
        self._ring = ring
        self.at_s = math.inf  # when to ring
        self.due_s = math.inf  # when the timer comes due
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        """Call `ring` at this time of the loop's clock instead of the time set before; infinity means never."""
        self.at_s = at_s
        if at_s < self.due_s:
            self.arm()

    def cancel(self) -> None:
        """Cancel the call of `ring` and release the timer."""
        self.at_s = self.due_s = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arm(self) -> None:
        """Set the timer to the time to ring: it is set to none, or to a later one."""
        if self._timer is not None:
            self._timer.cancel()
        self.due_s = self.at_s
        self._timer = self._loop.call_at(self.at_s, self._is_due)

    def _is_due(self) -> None:
        self._timer = None
        self.due_s = math.inf
        if self.at_s == math.inf:
            return
        if self._loop.time() < self.at_s - EARLY_S:
            self.arm()
            return
        self.at_s = math.inf
        self._ring()
