"""Who may have a write under way now: bindings before status patches before Events.

Bindings have all slots of the adaptive limit, however many others are under way. The others take what bindings leave;
but one of each kind may always be under way, so that a flood of bindings slows conditions and Events down and does not
stop them. When the apiserver asks to come back later nothing more is sent until then.

Events, which nobody waits for, also keep off the apiserver's processors: one at a time, until bindings have been at
rest for a while, and hardly any while bindings are under way. That is how it looks when the apiserver itself is slow
for a moment, as it collects its garbage: what a binding needs then, Events do not take. But a flood may last: when some
Event has been waiting for five seconds, they go as the others do until none waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType

from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.ratelimit import Priority
from kscheduler.errors import APIError, TooManyRequests, Unreachable

REST_S = 0.1  # since the last binding: from then on Events may go together
# While bindings are under way, from one Event to the next: more than twice what it takes to write one, and a hundred
# a second still go in the longest flood.
EVENT_PERIOD_S = 0.01
PATIENCE_S = 5.0  # of Events: some thousands wait then, each a kilobyte
LONGEST_PAUSE_S = 10.0  # obeyed of a Retry-After; who asks for more is asked again


class Slots:
    """`on_free` is called whenever a slot may be free for a binding; those that wait here have had theirs."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self.on_free: Callable[[], None] = _nothing
        self._under_way = [0] * len(Priority)  # by priority
        self._waiting: list[deque[asyncio.Future[None]]] = [deque() for _ in Priority]  # by priority, oldest first
        self._resume: asyncio.TimerHandle | None = None  # while the apiserver wants to be left alone
        self._last_bound_s = -REST_S  # when the last binding was answered; all by the loop's clock
        self._next_event_s = 0.0  # until then no other Event goes if bindings are under way
        self._events_wait_since_s = 0.0  # if any does
        self._event_is_due: asyncio.TimerHandle | None = None  # while one waits for that

    @property
    def under_way(self) -> int:
        return sum(self._under_way)

    @property
    def is_paused(self) -> bool:
        return self._resume is not None

    def try_take(self, priority: Priority) -> bool:
        """Take a slot if one is free and nobody of this kind waits for it."""
        return not self._waiting[priority] and self._take(priority)

    def give_back(self, priority: Priority) -> None:
        self._under_way[priority] -= 1
        if priority is Priority.BIND:
            self._last_bound_s = asyncio.get_running_loop().time()
        self._serve()

    def taken(self, priority: Priority) -> Taken:
        """A slot for as long as an `async with` block runs; what ends the block is learnt from."""
        return Taken(self, priority)

    async def wait(self, priority: Priority) -> None:
        """Until a slot has been taken for the caller."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if priority is Priority.EVENT and not self._waiting[priority]:
            self._events_wait_since_s = loop.time()
        self._waiting[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                self.give_back(priority)
            raise

    # --- what answers teach -------------------------------------------------------------------------------------

    def answered(self, latency_s: float) -> None:
        """A binding was answered; while it was under way, so were as many as are now, and itself."""
        limit = self.limit
        limit.answered(latency_s, is_full=self._under_way[Priority.BIND] >= limit.value)

    def learn(self, error: APIError) -> None:
        """A failure may be a plea to slow down."""
        if not isinstance(error, (TooManyRequests, Unreachable)) and error.status < 500:
            return
        self.limit.pushed_back()
        if error.retry_after_s and self._resume is None:
            pause_s = min(error.retry_after_s, LONGEST_PAUSE_S)
            self._resume = asyncio.get_running_loop().call_later(pause_s, self._go_on)

    def close(self) -> None:
        for timer in (self._resume, self._event_is_due):
            if timer is not None:
                timer.cancel()

    def _go_on(self) -> None:
        self._resume = None
        self._serve()

    def _serve(self) -> None:
        """Slots for those that wait, most urgent first."""
        bindings, statuses, events = self._waiting
        if bindings:
            self._serve_kind(Priority.BIND, bindings)
        self.on_free()
        if statuses:
            self._serve_kind(Priority.STATUS, statuses)
        if events:
            self._serve_kind(Priority.EVENT, events)

    def _serve_kind(self, priority: Priority, waiting: deque[asyncio.Future[None]]) -> None:
        while waiting:
            if not waiting[0].done():
                if not self._take(priority):
                    return
                waiting[0].set_result(None)
            waiting.popleft()

    def _take(self, priority: Priority) -> bool:
        if self._resume is not None:
            return False
        under_way = self._under_way
        is_bind = priority is Priority.BIND
        if (under_way[0] if is_bind else sum(under_way)) >= self.limit.value and (is_bind or under_way[priority]):
            return False
        if priority is Priority.EVENT and not self._may_disturb(under_way[Priority.BIND], under_way[Priority.EVENT]):
            return False
        under_way[priority] += 1
        return True

    def _may_disturb(self, bindings: int, events: int) -> bool:
        """May another Event go beside these? If only time forbids it, those that wait are served when it has passed."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._waiting[Priority.EVENT] and now - self._events_wait_since_s >= PATIENCE_S:
            return True
        if events and (bindings or now - self._last_bound_s < REST_S):
            return False
        if bindings and now < self._next_event_s:
            if self._event_is_due is None:
                self._event_is_due = loop.call_at(self._next_event_s, self._event_came_due)
            return False
        self._next_event_s = now + EVENT_PERIOD_S
        return True

    def _event_came_due(self) -> None:
        self._event_is_due = None
        self._serve_kind(Priority.EVENT, self._waiting[Priority.EVENT])


class Taken:
    """See `Slots.taken`. Spelled out: a generator would cost as much as all the rest of a request."""

    __slots__ = ("_priority", "_slots", "_started")

    def __init__(self, slots: Slots, priority: Priority) -> None:
        self._slots = slots
        self._priority = priority
        self._started = 0.0

    async def __aenter__(self) -> None:
        if not self._slots.try_take(self._priority):
            await self._slots.wait(self._priority)
        self._started = asyncio.get_running_loop().time()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, APIError):
            self._slots.learn(error)
        elif error is None and self._priority is Priority.BIND:
            self._slots.answered(asyncio.get_running_loop().time() - self._started)
        self._slots.give_back(self._priority)


def _nothing() -> None:
    pass
