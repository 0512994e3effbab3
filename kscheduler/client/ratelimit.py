"""A token bucket that limits the rate of requests, as clientConnection.qps and burst configure it.

Waiting requests are served by priority, then in order of arrival: a binding overtakes any number of status patches. One
timer of the event loop serves all of them. Where tokens come fast, it lets several come together, because a wake-up for
each would cost more CPU time than the requests themselves. Time is read from the monotonic clock that is passed in.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
from collections.abc import Callable

import msgspec

from kscheduler.clock import Clock

# What client-go takes for a qps or burst of zero.
DEFAULT_QPS = 5.0
DEFAULT_BURST = 10
# While requests wait, a timer lets the tokens of so long a time come together: about as long as a binding takes.
TOGETHER_S = 0.01
WHOLE = 1.0 - 1e-9  # sums of elapsed time fall short of a whole token by rounding


class Priority(enum.IntEnum):
    """The kind of a write; a lower number goes first, except that repeated bindings rank as first ones for tokens.

    Repeated bindings also have concurrency slots of their own.
    """

    BIND = 0
    STATUS = 1
    EVENT = 2
    REPEAT = 3


class WaitingRequests(msgspec.Struct, eq=False):
    """Requests that wait for tokens together; `on_tokens` is called from the event loop with how many have come."""

    priority: Priority
    on_tokens: Callable[[int], None]
    wanted: int = 0  # tokens that are still to come


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
        # Heap: priority, arrival -> who waits, or did so and has given up.
        self._waiting: list[tuple[int, int, WaitingRequests]] = []
        self._wanted = 0  # by all of them
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a token."""
        return self._wanted

    def try_acquire_many(self, count: int) -> bool:
        """Take so many tokens and return True, if there are as many and no other request waits for one."""
        if self.is_unlimited:
            return True
        if self._wanted:
            return False
        self._refill()
        if self._tokens < count - 1 + WHOLE:
            return False
        self._tokens -= count
        return True

    def try_acquire_some(self, most: int) -> int:
        """Take up to so many tokens, as far as they are there and no other request waits for one; return how many."""
        if self.is_unlimited:
            return most
        if self._wanted:
            return 0
        self._refill()
        count = min(most, int(self._tokens + (1.0 - WHOLE)))
        self._tokens -= count
        return count

    def put_back(self, count: int) -> None:
        """Return tokens that were taken for requests that are not sent."""
        self._tokens = min(self._burst, self._tokens + count)

    def try_acquire(self) -> bool:
        """Take a token and return True, if there is one and no other request waits for it."""
        if self.is_unlimited:
            return True
        if self._wanted:
            return False
        # As `_refill`, without its call: it is asked for each request.
        now = self._clock.now()
        tokens = self._tokens + (now - self._updated) * self._qps
        if tokens > self._burst:
            tokens = self._burst
        self._updated = now
        has_one = tokens >= WHOLE
        self._tokens = tokens - 1.0 if has_one else tokens
        return has_one

    async def acquire(self, priority: Priority = Priority.BIND) -> None:
        """Wait for a token."""
        if not self.try_acquire():
            await self.acquire_some(priority, 1)

    async def acquire_some(self, priority: Priority, most: int) -> int:
        """Wait for tokens, and return how many came together, 1 to `most`."""
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_tokens(count: int) -> None:
            if turn.done():
                self.put_back(count)
                return
            turn.set_result(count)
            self._give_up(waiting)

        waiting = WaitingRequests(priority, on_tokens)
        self.want(waiting, most)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # tokens came together with the cancellation
                self.put_back(turn.result())
            self._give_up(waiting)
            raise

    def want(self, waiting: WaitingRequests, count: int) -> None:
        """Take so many more tokens for `waiting` as they come."""
        if not waiting.wanted:
            heapq.heappush(self._waiting, (waiting.priority, next(self._arrival), waiting))
        waiting.wanted += count
        self._wanted += count
        self._schedule()

    def _give_up(self, waiting: WaitingRequests) -> None:
        self._wanted -= waiting.wanted
        waiting.wanted = 0

    def _refill(self) -> None:
        now = self._clock.now()
        # As in client-go, those that wait lose no token because they are served late.
        most = max(self._burst, self._wanted)
        self._tokens = min(most, self._tokens + (now - self._updated) * self._qps)
        self._updated = now

    def _serve(self) -> None:
        self._timer = None
        self._refill()
        loop = asyncio.get_running_loop()
        while self._waiting:
            waiting = self._waiting[0][2]
            count = min(waiting.wanted, int(self._tokens + (1.0 - WHOLE)))
            if waiting.wanted and not count:
                break
            heapq.heappop(self._waiting)
            if not count:  # given up
                continue
            self._tokens -= count
            self._wanted -= count
            waiting.wanted -= count
            loop.call_soon(waiting.on_tokens, count)  # by itself, so that an error in one call is no other's fault
            if waiting.wanted:  # behind others that came meanwhile
                heapq.heappush(self._waiting, (waiting.priority, next(self._arrival), waiting))
        self._schedule()

    def _schedule(self) -> None:
        if not self._wanted or self._timer is not None:
            return
        together = min(self._wanted, self._burst, max(1.0, self._qps * TOGETHER_S))
        delay_s = max(0.0, (together - self._tokens) / self._qps)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._serve)
