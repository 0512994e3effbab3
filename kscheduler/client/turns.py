"""Work that is done in turns on the event loop, without a task: a turn soon after each sign that there is some."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from kscheduler.client.alarm import Alarm


class Turns:
    """Calls `turn` in the loop's next round once `set` was called, and again when the time has come that it returned.

    `turn` returns the seconds until its next call, 0 for the next round, or None for a call only after `set`. It looks
    at `is_set` itself before it returns: a `set` during a turn asks for no other one.
    """

    def __init__(self, turn: Callable[[], float | None]) -> None:
        self._turn = turn
        self.is_set = False  # since the last `clear`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None  # None while no turns are taken
        self._is_due = False  # a turn comes in the next round, or is being taken
        self._alarm: Alarm | None = None  # set whenever turns ask for a later one; None while no turns are taken
        self._is_alarm_set = False

    def set(self) -> None:
        """Report that there may be work. While no turns are taken this is only remembered."""
        self.is_set = True
        if not self._is_due and self._loop is not None and self._ended is not None:
            self._is_due = True
            self._loop.call_soon(self._take)

    def clear(self) -> None:
        self.is_set = False

    async def run(self) -> None:
        """Take turns, the first at once, until `end` is called in one. Raises what a turn raises."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._alarm = Alarm(self._loop, self._take)
        self._is_alarm_set = False
        try:
            self._take()
            await self._ended
        finally:
            self._ended = None
            self._alarm.cancel()

    def end(self) -> None:
        """Take no more turns after this one."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _come_soon(self) -> None:
        assert self._loop is not None
        self._is_due = True
        self._loop.call_soon(self._take)

    def _take(self) -> None:
        ended, loop = self._ended, self._loop
        if ended is None or loop is None or ended.done():
            self._is_due = False
            return
        self._is_due = True  # what is set during the turn the turn itself sees
        try:
            pause_s = self._turn()
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)
            return
        finally:
            self._is_due = False
        if ended.done():
            return
        if pause_s == 0.0:
            self._come_soon()
        elif pause_s is not None or self._is_alarm_set:
            self._set_alarm(pause_s)

    def _set_alarm(self, pause_s: float | None) -> None:
        """Have a turn after a pause; without one, drop the turn that was to come after an earlier pause."""
        assert self._alarm is not None
        assert self._loop is not None
        self._is_alarm_set = pause_s is not None
        self._alarm.set(math.inf if pause_s is None else self._loop.time() + pause_s)
