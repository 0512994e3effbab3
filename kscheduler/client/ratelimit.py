"""A token bucket that limits the rate of requests, as clientConnection.qps and burst configure it.

Waiting requests are served by priority, then in order of arrival: a binding overtakes any number of status patches. One
timer of the event loop serves all of them. Time is read from the monotonic clock that is passed in.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
from collections.abc import Callable

from kscheduler.clock import Clock

# What client-go takes for a qps or burst of zero.
DEFAULT_QPS = 5.0
DEFAULT_BURST = 10
TOGETHER_S = 0.002
WHOLE = 1.0 - 1e-9  # sums of elapsed time fall short of a whole token by rounding


class Priority(enum.IntEnum):
    """The kind of a write; a lower number goes first, except that repeated bindings rank as first ones for tokens.

    Repeated bindings also have concurrency slots of their own.
    """

    BIND = 0
    STATUS = 1
    EVENT = 2
    REPEAT = 3


class RateLimiter:
    """Lets `burst` requests start at once, then `qps` a second. A negative qps means no limit, as in client-go."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps if qps != 0 else DEFAULT_QPS
        self.is_unlimited = qps < 0
        self._burst = float(burst if burst > 0 else DEFAULT_BURST)
        self._clock = clock
        self._tokens = self._burst
        self._updated = clock.now()
        self._arrival = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # heap: priority, arrival -> its turn
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a token, including those given up meanwhile."""
        return len(self._waiting)

    def try_acquire_many(self, count: int) -> bool:
        """Take so many tokens and return True, if there are as many and no other request waits for one."""
        if self.is_unlimited:
            return True
        if self._waiting:
            return False
        self._refill()
        if self._tokens < count - 1 + WHOLE:
            return False
        self._tokens -= count
        return True

    def put_back(self, count: int) -> None:
        """Return tokens that were taken for requests that are not sent."""
        self._tokens = min(self._burst, self._tokens + count)

    def try_acquire(self) -> bool:
        """Take a token and return True, if there is one and no other request waits for it."""
        if self.is_unlimited:
            return True
        if self._waiting:
            return False
        # As `_refill` and `_take`, without their calls: it is asked for each request.
        now = self._clock.now()
        tokens = self._tokens + (now - self._updated) * self._qps
        if tokens > self._burst:
            tokens = self._burst
        self._updated = now
        has_one = tokens >= WHOLE
        self._tokens = tokens - 1.0 if has_one else tokens
        return has_one

    async def acquire(self, priority: Priority = Priority.BIND) -> float:
        """Wait for a token, and return how many seconds that took."""
        if self.try_acquire():
            return 0.0
        start = self._clock.now()
        turn = self._wait(priority)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the token came together with the cancellation
                self._tokens = min(self._burst, self._tokens + 1.0)
                self._serve()
            raise
        return self._clock.now() - start

    def call_with_token(self, priority: Priority, callback: Callable[[], None]) -> None:
        """Take a token for the caller when its turn comes, and then call `callback` from the event loop."""
        self._wait(priority).add_done_callback(lambda _: callback())

    def _wait(self, priority: Priority) -> asyncio.Future[None]:
        """Return a future that is done when a token has been taken for the caller."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._arrival), turn))
        self._schedule()
        return turn

    def _refill(self) -> None:
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now

    def _take(self) -> bool:
        if self._tokens < WHOLE:
            return False
        self._tokens -= 1.0
        return True

    def _serve(self) -> None:
        self._timer = None
        self._refill()
        while self._waiting:
            turn = self._waiting[0][2]
            if not turn.done():
                if not self._take():
                    break
                turn.set_result(None)
            heapq.heappop(self._waiting)
        self._schedule()

    def _schedule(self) -> None:
        if not self._waiting or self._timer is not None:
            return
        # Where tokens come faster than that, one timer waits for several.
        together = min(len(self._waiting), self._burst, max(1.0, self._qps * TOGETHER_S))
        delay_s = max(0.0, (together - self._tokens) / self._qps)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._serve)
