"""The calls of an event loop in virtual time: those that are ready, and timers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import final

from kscheduler._fast.codes import MANY_TIMERS, NOTHING_LEFT, STOPPED, TIME_STANDS_STILL


@final
class Call:
    """A callback that will run soon or at a set time: the handle that `call_soon` and `call_at` return."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Callable[..., object], args: tuple[object, ...], context: Context | None) -> None:
        self.callback: Callable[..., object] | None = callback  # None once cancelled
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Never run the callback."""
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        """Return whether `cancel` was called."""
        return self.callback is None


@final
class CallQueue:
    """The calls that are ready, in order, and timers; `run` makes the calls, and moves time when none is ready."""

    def __init__(self, start: float) -> None:
        """Build an empty queue whose time is `start`, in seconds."""
        self._now = start
        self._ready: list[Call] = []
        self._timers: list[tuple[float, int, Call]] = []  # heap: when, number, call
        self._number = 0  # of the last timer
        self._many_timers = MANY_TIMERS  # with more than this, cancelled ones are removed from the heap
        self._left = 0  # calls of this round that come after the one that is being made
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._ready) + len(self._timers)

    def time(self) -> float:
        """Return the time in seconds."""
        return self._now

    def call_soon(self, callback: Callable[..., object], *args: object, context: Context | None = None) -> Call:
        """Have the callback called in the next round, in `context` if there is one."""
        call = Call(callback, args, context)
        self._ready.append(call)
        return call

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Call:
        """Have the callback called at a time. Raises ValueError for a time that is not a number."""
        return self._set_timer(when, Call(callback, args, context))

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Call:
        """Have the callback called after so many seconds. Raises ValueError for a delay that is not a number."""
        return self._set_timer(self._now + delay, Call(callback, args, context))

    def _set_timer(self, when: float, call: Call) -> Call:
        if math.isnan(when):  # it would be neither before nor after other timers
            raise ValueError("expected a timer's time, got nan")
        self._number += 1
        heappush(self._timers, (when, self._number, call))
        if len(self._timers) > self._many_timers:
            self._drop_cancelled()
        return call

    def _drop_cancelled(self) -> None:
        self._timers = [timer for timer in self._timers if timer[2].callback is not None]
        heapify(self._timers)
        self._many_timers = max(MANY_TIMERS, 2 * len(self._timers))

    def is_at_last_call(self) -> bool:
        """Return whether the call that is being made is the last one of its round, and none is ready for the next."""
        return not self._left and not self._ready

    def stop(self) -> None:
        """Let `run` return after the round in which it is."""
        self._is_stopped = True

    def clear(self) -> None:
        """Drop all calls."""
        self._ready.clear()
        self._timers.clear()

    def run(self, max_rounds: int, on_error: Callable[[Callable[..., object], BaseException], object]) -> int:
        """Run rounds: each makes ready what is due, then calls what was ready by then. Return why it ended.

        STOPPED: `stop` was called; NOTHING_LEFT: nothing is ready, and there is no timer; TIME_STANDS_STILL: there were
        more than `max_rounds` rounds without time moving. `on_error(callback, error)` is called for what a callback
        raises; SystemExit and KeyboardInterrupt end the run.
        """
        rounds = 0  # since time last moved
        self._is_stopped = False
        while not self._is_stopped:
            if not self._ready:
                while self._timers and self._timers[0][2].callback is None:
                    heappop(self._timers)
                if not self._timers:
                    return NOTHING_LEFT
                if self._timers[0][0] > self._now:
                    self._now = self._timers[0][0]
                    rounds = 0
            rounds += 1
            if rounds > max_rounds:
                return TIME_STANDS_STILL
            while self._timers and self._timers[0][0] <= self._now:
                self._ready.append(heappop(self._timers)[2])
            batch, self._ready = self._ready, []
            for done, call in enumerate(batch):
                callback = call.callback
                self._left = len(batch) - done - 1
                if callback is None:
                    continue
                try:
                    if call.context is None:
                        callback(*call.args)
                    else:
                        call.context.run(callback, *call.args)
                except (SystemExit, KeyboardInterrupt):
                    self._ready = batch[done + 1 :] + self._ready
                    raise
                except BaseException as error:
                    on_error(callback, error)
        return STOPPED
