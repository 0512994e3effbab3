"""Decides which write may be under way now: bindings before status patches before Events.

A slot is the permission for one more concurrent write. Bindings may use all slots of the adaptive limit, however many
other requests are under way. The others take what bindings leave; but one of each kind (for Events more over time, see
below) may always be under way, so that many bindings slow conditions and Events down but do not stop them. After a
Retry-After nothing is sent until that time is over.

Events, for which nobody waits, also keep the apiserver's processors free: one at a time until there have been no
bindings for a while, and hardly any while bindings are under way. Bindings are also under way for longer when the
apiserver itself is slow for a moment, such as during garbage collection; then Events should not compete with them. But
many bindings may go on for long. So once Events have been waiting for five seconds, two may be under way, then twice as
many every five seconds, up to a quarter of the limit. Without bindings, Events may take all of it at once.

A request without an answer holds its slot until it is overdue: for at least a second, and several times as long as its
kind usually takes. What is wrong then shows in the other requests. If only some hang (on one of several apiservers
behind a load balancer, for example), requests of that kind sent later have been answered; the overdue one then loses
its slot at once. If no binding at all is answered, the apiserver may be slow for all. Then slots are freed one at a
time, FREE_PERIOD_S apart, until there is an answer again or as many are overdue as the limit may ever be.

Repetitions of bindings whose first request hangs have a few slots of their own, so that they take none from first ones.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sized
from types import TracebackType
from typing import Final, Literal

import msgspec

from kscheduler.client.adaptive_limit import MINIMUM, AdaptiveLimit
from kscheduler.client.protocol import nothing
from kscheduler.client.ratelimit import Priority
from kscheduler.errors import APIError, Unreachable

REST_S = 0.1  # so long after the last binding several Events may be under way at once
# While bindings are under way, from one Event to the next: more than twice what it takes to write one, and a hundred
# a second still go in the longest flood.
EVENT_PERIOD_S = 0.01
PATIENCE_S = 5.0  # the share of waiting Events doubles every so many seconds; some thousands wait then, 1 KB each
EVENTS_OF_LIMIT = 4  # while bindings are under way, Events are never more than a part in so many of the limit
LONGEST_PAUSE_S = 10.0  # of a Retry-After; one that is longer is cut to this
OVERDUE_S = 1.0  # no request is overdue before: ten times what a busy apiserver takes
USUAL_TIMES = 5.0  # nor is one overdue before so many times the usual latency
FREE_PERIOD_S = 0.025  # 40 a second: kube-scheduler sends 50 a second, whatever is answered
_STEP = 1.1  # each answer moves the usual latency by this factor, towards a median, which few late answers hardly move
_SHORTEST_S, _LONGEST_S = 0.001, 30.0
# Before Python 3.12, each look at a member of an Enum by its class costs several times as much as one at a global name.
_BIND: Final = Priority.BIND
_EVENT: Final = Priority.EVENT


class _Write(msgspec.Struct, eq=False):
    """Events that went in one write, of which the apiserver handles one at a time."""

    under_way: int


class Slot(msgspec.Struct, eq=False):
    """The permission that a request holds while it is under way."""

    priority: Priority
    sent_s: float  # by the loop's clock
    on_overdue: Callable[[], None]
    is_overdue: bool = False  # the request has lost its slot
    is_hung: bool = False  # requests of this kind that were sent later have been answered
    write: _Write | None = None  # of an Event that went with others


class _Turn(asyncio.Future[None]):
    """A waiting request's turn: a future that is done once a slot (permission to send) has been taken for it."""

    since_s = math.inf  # by the loop's clock; only Events' counts


class _Kind:
    """The latency of similar requests: bindings and their repetitions, status patches, or Events."""

    __slots__ = ("answered_sent_s", "is_stalled", "usual_s")

    def __init__(self) -> None:
        self.usual_s = 0.05  # latency
        self.answered_sent_s = -math.inf  # when the youngest answered request was sent
        self.is_stalled = False  # one was overdue, and none was answered since

    @property
    def patience_s(self) -> float:
        return max(OVERDUE_S, USUAL_TIMES * self.usual_s)


class Slots:
    """Grants each write a slot, i.e. the permission to be under way now."""

    def __init__(self, limit: AdaptiveLimit) -> None:
        self.limit = limit
        self._time: Callable[[], float] = self._find_time  # the loop's clock
        self._elsewhere: Sized = ()  # bindings that wait outside
        self._on_free: Callable[[], None] = nothing
        self._under_way = [0] * len(Priority)  # by priority
        self._waiting: list[deque[_Turn]] = [deque() for _ in Priority]  # by priority, oldest first
        self._resume: asyncio.TimerHandle | None = None  # while the apiserver wants to be left alone
        self._last_bound_s = -REST_S  # when the last binding was answered; all by the loop's clock
        self._next_event_s = 0.0  # until then no other Event goes if bindings are under way
        self._event_gap_s = EVENT_PERIOD_S  # from the last Event to that time
        self._behind = 0  # Events under way that wait for another one in the same write
        self._event_is_due: asyncio.TimerHandle | None = None  # while one waits for time to pass
        self._event_due_s = 0.0  # when that timer ends
        self._sent: list[dict[Slot, None]] = [{} for _ in Priority]  # by priority: what counts, sent first first
        bindings = _Kind()
        self._kinds = [_Kind() if priority in (Priority.STATUS, Priority.EVENT) else bindings for priority in Priority]
        self._overdue = [0] * len(Priority)  # by priority: under way and not counted
        self._next_free_s = [0.0] * len(Priority)  # by priority: when a slot may come free though nothing is answered
        self._watch: asyncio.TimerHandle | None = None  # for what comes due next

    def call_when_free(self, waiting: Sized, on_free: Callable[[], None]) -> None:
        """Call `on_free` whenever a slot may be free for the bindings that wait in `waiting`.

        Bindings that wait here get theirs before.
        """
        self._elsewhere = waiting
        self._on_free = on_free

    def _find_time(self) -> float:
        """Look up the running loop's clock on first use, because it is read several times per request."""
        self._time = asyncio.get_running_loop().time
        return self._time()

    @property
    def under_way(self) -> int:
        """The number of requests that hold a slot."""
        return sum(self._under_way)

    @property
    def overdue(self) -> int:
        """The number of requests under way that lost their slot because their answer is overdue."""
        return sum(self._overdue)

    def try_take(self, priority: Priority, waited_s: float = 0.0) -> bool:
        """Take a slot (permission to send a request) if one is free and no request of this kind waits for one.

        `waited_s` is how long an Event has been waiting before.
        """
        return not self._waiting[priority] and self._take(priority, self._time() - waited_s)

    async def take(self, priority: Priority, waited_s: float = 0.0) -> None:
        """Take a slot (permission to send a request) as soon as one is free.

        `waited_s` is how long an Event has already been waiting before.
        """
        if not self.try_take(priority, waited_s):
            await self.wait(priority, waited_s)

    def give_back(self, priority: Priority) -> None:
        self._under_way[priority] -= 1
        if priority is Priority.BIND:
            self._last_bound_s = self._time()
        self._serve()

    def taken(
        self, priority: Priority, on_overdue: Callable[[], None] | None = None, *, is_held: bool = False
    ) -> Taken:
        """Return a context manager that holds a slot in an `async with` block, and learns from the error that ends it.

        A slot is the permission for one request to be under way. With `is_held` the caller has already taken the slot,
        and the block gives it back.
        """
        return Taken(self, priority, on_overdue or nothing, is_held)

    def begin(self, priority: Literal[Priority.BIND, Priority.EVENT]) -> Slot | None:
        """Take a slot as `try_take` does, for a request that goes out now, or return None."""
        if self._resume is not None or self._waiting[priority]:
            return None
        under_way, now = self._under_way, self._time()
        # As `_take`, without its call.
        if priority is _BIND:
            if under_way[_BIND] >= self.limit.value:
                return None
        elif not self._may_disturb(now):
            return None
        under_way[priority] += 1
        # As `sent`, without its call.
        slot = Slot(priority, now, nothing)
        self._sent[priority][slot] = None
        if self._watch is None:
            self._watch_for_overdue(priority)
        return slot

    def begin_events(self, count: int) -> list[Slot] | None:
        """Take slots for Events that go out now in one write, or return None.

        The apiserver handles them one after the other, so they may go whenever a single one may, and count as one that
        is under way. While bindings are, the next Events wait for as long as if these had been sent one by one.
        """
        first = self.begin(_EVENT)
        return None if first is None else [first, *self._join(first, count - 1)]

    def sent_events(self, count: int) -> list[Slot]:
        """Take slots as `begin_events` does, where the slot of the first Event has been taken before."""
        first = self.sent(_EVENT, nothing)
        return [first, *self._join(first, count - 1)]

    def _join(self, first: Slot, count: int) -> list[Slot]:
        """Take slots for so many Events in the same write as this one."""
        first.write = _Write(1 + count)
        joined = [Slot(_EVENT, first.sent_s, nothing, write=first.write) for _ in range(count)]
        self._sent[_EVENT].update(dict.fromkeys(joined))
        self._under_way[_EVENT] += count
        self._behind += count
        if self._next_event_s > first.sent_s:
            self._next_event_s += count * self._event_gap_s
        return joined

    def _leave(self, write: _Write) -> None:
        """Let the next Event of a write have its turn."""
        write.under_way -= 1
        if write.under_way:
            self._behind -= 1

    def sent(self, priority: Priority, on_overdue: Callable[[], None]) -> Slot:
        """Record that a request is sent on a slot that was taken.

        `on_overdue` is called at most once, before `ended`.
        """
        slot = Slot(priority, self._time(), on_overdue)
        self._sent[priority][slot] = None
        if self._watch is None:
            self._watch_for_overdue(priority)
        return slot

    def ended(self, slot: Slot, error: APIError | None, *, is_abandoned: bool = False) -> None:
        """Learn from the answer or failure of a request, and give its slot back. None as error means success.

        Nothing is learned from a request that is abandoned.
        """
        priority, under_way, now = slot.priority, self._under_way, self._time()
        # 1. How long does this kind of request take?
        if not is_abandoned and (error is None or error.status):
            kind, sent_s = self._kinds[priority], slot.sent_s
            usual_s, latency_s = kind.usual_s, now - sent_s
            kind.is_stalled = False
            if sent_s > kind.answered_sent_s:
                kind.answered_sent_s = sent_s
            usual_s *= _STEP if latency_s > usual_s else 1 / _STEP
            kind.usual_s = _SHORTEST_S if usual_s < _SHORTEST_S else _LONGEST_S if usual_s > _LONGEST_S else usual_s
        # 2. How many may be under way?
        if error is not None:
            if not (slot.is_hung and isinstance(error, Unreachable)):
                self.learn(error)
        elif priority is _BIND and not (slot.is_hung or is_abandoned):
            limit = self.limit
            limit.note_latency(now - slot.sent_s, is_full=under_way[_BIND] >= limit.value)
        # 3. Give the slot back, and to the request that waits for it.
        slot.on_overdue = nothing  # it mostly refers to what holds the slot: a cycle that only a collector would free
        if slot.is_overdue:
            self._overdue[priority] -= 1
        else:
            del self._sent[priority][slot]
            under_way[priority] -= 1
            write = slot.write
            if write is not None:  # as `_leave`, without its call: the Event of nearly each pod comes here
                write.under_way -= 1
                if write.under_way:
                    self._behind -= 1
            if priority is _BIND:
                self._last_bound_s = now
        bindings, statuses, events, repeats = self._waiting
        # While bindings are under way only time, or the end of an Event, lets another Event go.
        may_disturb = events and (priority is _EVENT or not under_way[_BIND])
        if may_disturb or self._elsewhere or bindings or statuses or repeats:
            self._serve(may_disturb=bool(may_disturb))

    def drop(self, slot: Slot) -> None:
        """Give back the slot (permission to send) of an abandoned request, without learning from the request."""
        self.ended(slot, None, is_abandoned=True)

    async def wait(self, priority: Priority, waited_s: float = 0.0) -> None:
        """Queue for a slot, and return once one has been taken for the caller."""
        loop = asyncio.get_running_loop()
        turn = _Turn(loop=loop)
        turn.since_s = loop.time() - waited_s
        self._waiting[priority].append(turn)
        if priority is Priority.EVENT:  # it may have waited longer than those before it: their share grows sooner
            self._serve_kind(priority, self._waiting[priority])
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came together with the cancellation
                self.give_back(priority)
            raise

    # --- what answers teach -------------------------------------------------------------------------------------

    def learn(self, error: APIError) -> None:
        """Lower the limit, and pause for Retry-After, if the error shows that the apiserver is overloaded."""
        if not error.is_transient or error.is_failed_admission:
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

    def _watch_for_overdue(self, priority: Priority) -> None:
        """Look for overdue requests once this one, which has just been sent, may be overdue."""
        patience_s = self._kinds[priority].patience_s
        self._watch = asyncio.get_running_loop().call_later(patience_s, self._look_for_overdue)

    def _look_for_overdue(self) -> None:
        """Take slots away from overdue requests, i.e. those without an answer for longer than usual.

        Also set a timer for the next request that may become overdue.
        """
        now = self._time()
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
                    due_s = min(due_s, max(self._next_free_s[priority], now + FREE_PERIOD_S))
                    break
                del sent[oldest]
                self._under_way[priority] -= 1
                self._overdue[priority] += 1
                if oldest.write is not None:
                    self._leave(oldest.write)
                oldest.is_overdue = True
                overdue.append(oldest)
        self._watch = asyncio.get_running_loop().call_at(due_s, self._look_for_overdue) if due_s < math.inf else None
        for slot in overdue:
            slot.on_overdue()
        if overdue:
            self._serve()

    def _may_free(self, slot: Slot, kind: _Kind, now: float) -> bool:
        """Return True if this overdue request is to lose its slot now."""
        if self._overdue[slot.priority] >= self.limit.ceiling:
            return False
        slot.is_hung = kind.answered_sent_s > slot.sent_s
        if slot.is_hung:
            return True
        kind.is_stalled = True
        if now < self._next_free_s[slot.priority]:
            return False
        self._next_free_s[slot.priority] = now + FREE_PERIOD_S
        return True

    def _go_on(self) -> None:
        self._resume = None
        self._serve()

    def _serve(self, *, may_disturb: bool = True) -> None:
        """Give free slots to waiting requests, the most urgent first; to Events if they `may_disturb`."""
        bindings, statuses, events, repeats = self._waiting
        if repeats:
            self._serve_kind(Priority.REPEAT, repeats)
        if bindings:
            self._serve_kind(Priority.BIND, bindings)
        if self._elsewhere:
            self._on_free()
        if statuses:
            self._serve_kind(Priority.STATUS, statuses)
        if events and may_disturb:
            self._serve_kind(Priority.EVENT, events)

    def _serve_kind(self, priority: Priority, waiting: deque[_Turn]) -> None:
        while waiting:
            if not waiting[0].done():
                if not self._take(priority):
                    return
                waiting[0].set_result(None)
            waiting.popleft()

    def _take(self, priority: Priority, since_s: float = math.inf) -> bool:
        """Take a slot (permission to send a request) if the rules allow it.

        `since_s` is when an Event that waits outside this class began to wait.
        """
        if self._resume is not None:
            return False
        under_way = self._under_way
        limit = self.limit.value
        if priority is Priority.REPEAT:
            may_go = under_way[priority] < max(MINIMUM, limit // 2)
        elif priority is Priority.BIND:
            may_go = under_way[priority] < limit
        elif priority is Priority.STATUS:
            may_go = not under_way[priority] or sum(under_way) < limit
        else:
            may_go = self._may_disturb(since_s)
        under_way[priority] += may_go
        return may_go

    def _may_disturb(self, since_s: float) -> bool:
        """Return True if another Event may be sent. If it may later, set a timer that serves waiting Events then."""
        bindings, _, events, _ = self._under_way
        now = self._time()
        rested_s = self._last_bound_s + REST_S
        if not bindings and now >= rested_s:
            return not events or sum(self._under_way) < self.limit.value
        most = max(1, self.limit.value // EVENTS_OF_LIMIT)
        if waiting := self._waiting[Priority.EVENT]:
            since_s = min([turn.since_s for turn in waiting if not turn.done()], default=since_s)
        doublings = min(int(max(0.0, now - since_s) / PATIENCE_S + 1e-9), most)
        share = min(1 << doublings, most)
        due_s = math.inf if bindings else rested_s
        if events - self._behind >= share:
            if share < most:
                due_s = min(due_s, since_s + PATIENCE_S * (doublings + 1))
        elif bindings and now < self._next_event_s:
            due_s = self._next_event_s
        else:
            self._event_gap_s = EVENT_PERIOD_S / share
            self._next_event_s = now + self._event_gap_s
            return True
        self._serve_events_at(due_s)
        return False

    def _serve_events_at(self, due_s: float) -> None:
        timer = self._event_is_due
        if due_s == math.inf or (timer is not None and self._event_due_s <= due_s):
            return
        if timer is not None:
            timer.cancel()
        self._event_due_s = due_s  # uvloop's timers do not know it when it is now
        self._event_is_due = asyncio.get_running_loop().call_at(due_s, self._event_came_due)

    def _event_came_due(self) -> None:
        self._event_is_due = None
        self._serve_kind(Priority.EVENT, self._waiting[Priority.EVENT])


class Taken:
    """The context manager that `Slots.taken` returns. It is a class because a generator would be much slower."""

    __slots__ = ("_is_held", "_on_overdue", "_priority", "_slot", "_slots")

    def __init__(self, slots: Slots, priority: Priority, on_overdue: Callable[[], None], is_held: bool) -> None:
        self._slots = slots
        self._is_held = is_held
        self._priority = priority
        self._on_overdue = on_overdue
        self._slot: Slot | None = None

    async def __aenter__(self) -> None:
        if not self._is_held:
            await self._slots.take(self._priority)
        self._slot = self._slots.sent(self._priority, self._on_overdue)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._slot is not None
        if error is None or isinstance(error, APIError):
            self._slots.ended(self._slot, error)
        else:
            self._slots.drop(self._slot)
