"""Who may have a write under way now: bindings before status patches before Events.

Bindings have all slots of the adaptive limit, however many others are under way. The others take what bindings leave;
but one of each kind may always be under way, so that a flood of bindings slows conditions and Events down and does not
stop them. When the apiserver asks to come back later nothing more is sent until then.

Events, which nobody waits for, also keep off the apiserver's processors: one at a time, until bindings have been at
rest for a while, and hardly any while bindings are under way. That is how it looks when the apiserver itself is slow
for a moment, as it collects its garbage: what a binding needs then, Events do not take. But a flood may last: when some
Event has been waiting for five seconds, they go as the others do until none waits.

A request without an answer holds its slot until it is overdue: for at least a second, and several times as long as its
kind usually takes. Which of two things has happened shows in the others. Where some hang (one apiserver of several
behind a balancer, say), requests of the kind that were sent later have been answered: then the overdue one stops
counting at once. Where no binding at all is answered, the apiserver may be slow for all: then slots come free one at a
time, FREE_PERIOD_S apart, until there is an answer again or as many are overdue as the limit may ever be.

Repeats of bindings whose first try hangs have a few slots of their own, so that they take none from first tries.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from types import TracebackType

from kscheduler.client.adaptive_limit import MINIMUM, AdaptiveLimit
from kscheduler.client.ratelimit import Priority
from kscheduler.errors import APIError, TooManyRequests, Unreachable

REST_S = 0.1  # since the last binding: from then on Events may go together
# While bindings are under way, from one Event to the next: more than twice what it takes to write one, and a hundred
# a second still go in the longest flood.
EVENT_PERIOD_S = 0.01
PATIENCE_S = 5.0  # of Events: some thousands wait then, each a kilobyte
LONGEST_PAUSE_S = 10.0  # obeyed of a Retry-After; who asks for more is asked again
OVERDUE_S = 1.0  # no request is overdue before: ten times what a busy apiserver takes
USUAL_TIMES = 5.0  # nor before so many times the usual latency
FREE_PERIOD_S = 0.025  # 40 a second: kube-scheduler sends 50 a second, whatever is answered
_STEP = 1.1  # the usual latency follows each answer by so much: a median, which a few late ones hardly move
_SHORTEST_S, _LONGEST_S = 0.001, 30.0


class Slot:
    """What one request holds while it is under way."""

    __slots__ = ("is_hung", "is_overdue", "on_overdue", "priority", "sent_s")

    def __init__(self, priority: Priority, sent_s: float, on_overdue: Callable[[], None]) -> None:
        self.priority = priority
        self.sent_s = sent_s  # by the loop's clock
        self.on_overdue = on_overdue
        self.is_overdue = False  # it does not count any more
        self.is_hung = False  # others sent later were answered


class _Kind:
    """Requests of which all should take about as long: bindings and their repeats, statuses, Events."""

    __slots__ = ("answered_sent_s", "is_stalled", "overdue", "usual_s")

    def __init__(self) -> None:
        self.usual_s = 0.05  # latency
        self.answered_sent_s = -math.inf  # when the youngest answered request was sent
        self.overdue = 0  # under way and not counted
        self.is_stalled = False  # one was overdue, and none was answered since

    @property
    def patience_s(self) -> float:
        return max(OVERDUE_S, USUAL_TIMES * self.usual_s)

    def answered(self, sent_s: float, latency_s: float) -> None:
        self.is_stalled = False
        self.answered_sent_s = max(self.answered_sent_s, sent_s)
        usual_s = self.usual_s * _STEP if latency_s > self.usual_s else self.usual_s / _STEP
        self.usual_s = min(max(usual_s, _SHORTEST_S), _LONGEST_S)


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
        self._sent: list[dict[Slot, None]] = [{} for _ in Priority]  # by priority: what counts, sent first first
        bindings = _Kind()
        self._kinds = [_Kind() if priority in (Priority.STATUS, Priority.EVENT) else bindings for priority in Priority]
        self._next_free_s = 0.0  # when a slot may come free though nothing is answered
        self._watch: asyncio.TimerHandle | None = None  # for what comes due next

    @property
    def under_way(self) -> int:
        """Requests that count."""
        return sum(self._under_way)

    @property
    def overdue(self) -> int:
        """Requests under way that do not count any more."""
        return sum(kind.overdue for kind in set(self._kinds))

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

    def taken(self, priority: Priority, on_overdue: Callable[[], None] | None = None) -> Taken:
        """A slot for as long as an `async with` block runs; what ends the block is learnt from."""
        return Taken(self, priority, on_overdue or _nothing)

    def sent(self, priority: Priority, on_overdue: Callable[[], None]) -> Slot:
        """A request goes out on a slot that was taken. `on_overdue` is called at most once, before `ended`."""
        loop = asyncio.get_running_loop()
        slot = Slot(priority, loop.time(), on_overdue)
        self._sent[priority][slot] = None
        if self._watch is None:
            self._watch = loop.call_later(self._kinds[priority].patience_s, self._look_for_overdue)
        return slot

    def ended(self, slot: Slot, error: APIError | None) -> None:
        """The request was answered, or failed: learn from it and give its slot back. None: a plain yes."""
        priority, kind = slot.priority, self._kinds[slot.priority]
        latency_s = asyncio.get_running_loop().time() - slot.sent_s
        if error is None or error.status:
            kind.answered(slot.sent_s, latency_s)
        if error is not None:
            if not (slot.is_hung and isinstance(error, Unreachable)):
                self.learn(error)
        elif priority is Priority.BIND and not slot.is_hung:
            self.answered(latency_s)
        self.drop(slot)

    def drop(self, slot: Slot) -> None:
        """Give it back and learn nothing: the request was given up."""
        if slot.is_overdue:
            self._kinds[slot.priority].overdue -= 1
            self._serve()
        else:
            del self._sent[slot.priority][slot]
            self.give_back(slot.priority)

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
        for timer in (self._resume, self._event_is_due, self._watch):
            if timer is not None:
                timer.cancel()

    # --- what is overdue ----------------------------------------------------------------------------------------

    def _look_for_overdue(self) -> None:
        """Nothing that is overdue keeps its slot; called when the next may be."""
        now = asyncio.get_running_loop().time()
        due_s = math.inf
        overdue: list[Slot] = []
        for priority in Priority:
            kind, sent = self._kinds[priority], self._sent[priority]
            while sent:
                oldest = next(iter(sent))
                # While nothing is answered first tries are not waited for, so that one of them finds who answers.
                is_probe = kind.is_stalled and priority is Priority.BIND
                if not is_probe and now < oldest.sent_s + kind.patience_s:
                    due_s = min(due_s, oldest.sent_s + kind.patience_s)
                    break
                if not self._may_free(oldest, kind, now):
                    due_s = min(due_s, max(self._next_free_s, now + FREE_PERIOD_S))
                    break
                del sent[oldest]
                self._under_way[priority] -= 1
                kind.overdue += 1
                oldest.is_overdue = True
                overdue.append(oldest)
        self._watch = asyncio.get_running_loop().call_at(due_s, self._look_for_overdue) if due_s < math.inf else None
        for slot in overdue:
            slot.on_overdue()
        if overdue:
            self._serve()

    def _may_free(self, slot: Slot, kind: _Kind, now: float) -> bool:
        """May this one, which is overdue, stop counting?"""
        if kind.overdue >= self.limit.ceiling:
            return False
        slot.is_hung = kind.answered_sent_s > slot.sent_s
        if slot.is_hung:
            return True
        kind.is_stalled = True
        if now < self._next_free_s:
            return False
        self._next_free_s = now + FREE_PERIOD_S
        return True

    def _go_on(self) -> None:
        self._resume = None
        self._serve()

    def _serve(self) -> None:
        """Slots for those that wait, most urgent first."""
        bindings, statuses, events, repeats = self._waiting
        if repeats:
            self._serve_kind(Priority.REPEAT, repeats)
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
        if priority is Priority.REPEAT:
            if under_way[priority] >= max(MINIMUM, self.limit.value // 2):
                return False
            under_way[priority] += 1
            return True
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

    __slots__ = ("_on_overdue", "_priority", "_slot", "_slots")

    def __init__(self, slots: Slots, priority: Priority, on_overdue: Callable[[], None]) -> None:
        self._slots = slots
        self._priority = priority
        self._on_overdue = on_overdue
        self._slot: Slot | None = None

    async def __aenter__(self) -> None:
        if not self._slots.try_take(self._priority):
            await self._slots.wait(self._priority)
        self._slot = self._slots.sent(self._priority, self._on_overdue)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._slot is not None
        if error is None or isinstance(error, APIError):
            self._slots.ended(self._slot, error)
        else:
            self._slots.drop(self._slot)


def _nothing() -> None:
    pass
