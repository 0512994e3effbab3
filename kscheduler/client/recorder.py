"""Writes Events for users (`kubectl describe pod`) in the background: recording one never blocks and never fails.

As in client-go's broadcaster, the first occurrence creates an Event, and the second turns it into a series. Later ones
are counted, and written when the series is refreshed or ends. Occurrences belong together if object, resource version,
type, reason and action are equal. The first note stays even if later ones differ; but a pod whose condition changes
gets another version, so that its next Event has the new note. Unlike in client-go, all memory is bounded: the queue
drops the oldest of the least important Events, and the series seen longest ago are forgotten. The client has a separate
rate limit for Events.

An Event whose write failed for a reason that may pass is repeated under its name until the apiserver gives a definite
answer; "already exists" counts as success. While no request succeeds, one Event at a time is tried. The name of a pod's
Scheduled Event is derived from the pod's uid, so that the next leader can write it again without a duplicate.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import itertools
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.client.alarm import Alarm
from kscheduler.client.concurrency import Signal, cancel_and_wait, run_together
from kscheduler.client.event_queue import EventQueue, Worth
from kscheduler.client.protocol import (
    Client,
    Event,
    EventSeries,
    EventSlot,
    Regarding,
    SendsEvents,
    SendsEventsTogether,
)
from kscheduler.client.retry_pauses import Backoff
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict, NotFound, TooManyRequests, Unreachable

log = logging.getLogger(__name__)

NOTE_BYTES = 1024  # the API's limit
_SURELY_SHORT = NOTE_BYTES // 4  # characters, each of at most four bytes
_CUT = " ..."
SERIES_FINISH_S = 360.0  # client-go's: a series that was quiet for so long is over
SERIES_REFRESH_S = 1800.0  # client-go's: how often a lasting series is written
_SWEEP_S = 60.0
# About 1 KB each. A pod that fits nowhere has up to two: after its first Event its condition gives it another version.
# With fewer than there are such pods, each attempt would create a new Event instead of being counted.
MAX_SERIES = 32_768
KEEP_S = 3600.0  # how long an Event is repeated: the apiserver's own default of --event-ttl
WORKERS = 64  # as many as bindings by default; the adaptive limit of writes decides how many are really under way
_REPEAT_S, _REPEAT_MOST_S = 0.5, 30.0  # between the attempts of one Event
_RETURN_TICK_S = 0.5
# Where pods come one by one, a Scheduled Event waits so long for others with which it goes in one write. Then they go
# with the next one, which has woken the process already; if none comes, they are sent after the longer time.
HOLD_S = 0.1
LONGEST_HOLD_S = 0.15
MOST_HELD = 8  # as many as go in one write
SCHEDULED = "Scheduled"
FAILED = "FailedScheduling"


class _Key(msgspec.Struct, frozen=True):
    """The properties by which two occurrences count as one Event."""

    regarding: Regarding  # with its resource version, as in client-go
    type: str
    reason: str
    action: str
    related: Regarding | None


class _Bound(msgspec.Struct, frozen=True, gc=False):
    """A pod that was bound: what its Scheduled Event is made of once it is sent.

    A burst leaves one for each pod until its bindings are done, and an Event would be four times as large.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    node_name: str
    wall_s: float  # Unix seconds


class _Series(msgspec.Struct, eq=False, gc=False):
    """One Event that has been or will be written, and the number of its occurrences."""

    content: Event | _Bound
    uid: str  # of the object that the Event is about
    written_at: float  # monotonic
    seen_at: float
    count: int = 1
    written_count: int = 0  # the count that was last written to the apiserver
    worth: Worth = Worth.OUTCOME
    is_queued: bool = False
    failures: int = 0  # of its write in a row; while above 0, the write is repeated
    keep_until: float = 0.0  # monotonic: afterwards a failed write is not repeated any more


class EventRecorder:
    """Records Events and writes them.

    Run `run` as a task, call `record` on the event loop, and `drain` before the end.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        controller: str,
        instance: str,
        workers: int = WORKERS,
        max_queued: int = 50_000,  # about 1 KB each
        max_series: int = MAX_SERIES,
        on_dropped: Callable[[str, str], None] | None = None,
        writes_scheduled: bool = True,
    ) -> None:
        """Create a recorder that writes with `client`.

        `controller` is the scheduler's name and `instance` the name of this replica (each at most 128 bytes).
        `on_dropped` is called for each Event that is lost, with the reason (`queue_full` or `error`) and its
        importance. `writes_scheduled`: False to leave out the Events of pods that are bound, which nobody will read.
        """
        self._client = client
        self._direct = client if isinstance(client, SendsEvents) else None
        self._together = client if isinstance(client, SendsEventsTogether) else None
        self._held: list[_Series] = []  # of pods that were bound
        self._hold: Alarm | None = None  # for what is held; None while `run` does not run
        self._tasks: set[asyncio.Task[object]] = set()
        self._clock = clock
        self._rng = rng
        self._controller = controller
        self._instance = instance[:128]
        self._workers = workers
        self._max_queued = max_queued
        self._max_series = max_series
        self._on_dropped = on_dropped
        self._writes_scheduled = writes_scheduled
        self._queue: EventQueue[_Series] = EventQueue(max_queued)
        self._later: list[tuple[float, int, _Series]] = []  # heap: when its failed write is repeated
        self._arrival = itertools.count()
        self._some_later = asyncio.Event()
        self._is_away = False  # the apiserver takes no Events, and one worker tries
        self._is_back = Signal()  # it takes them again
        self._backoff = Backoff(rng, initial_s=0.5, maximum_s=10.0)
        self._series: OrderedDict[_Key, _Series] = OrderedDict()  # least recently seen first
        self._has_series = Signal()
        self._filled = Signal()
        self._is_running = False
        self._idle: asyncio.Future[None] | None = None  # somebody waits until everything is sent
        # One worker at a time takes Events. This is no lock, since that is slow where somebody always waits for it.
        self._is_taking = False
        self._next_takers: deque[asyncio.Future[None]] = deque()  # workers that wait for their turn
        self._behind_since = 0.0  # monotonic: when the queue was last empty, if it is not now
        self._under_way = 0
        self._ended = asyncio.Event()  # of as many as there are workers one was answered
        self._last_name_ns = 0
        self.dropped = 0  # occurrences lost because the queue was full
        self.failed = 0  # Events given up after the last attempt

    @property
    def queued(self) -> int:
        """The number of Events that wait to be written, including those whose failed write will be repeated."""
        return len(self._queue) + len(self._later) + len(self._held)

    # --- recording ----------------------------------------------------------------------------------------------

    def record(
        self,
        regarding: Pod | Regarding,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str = "",
        related: Regarding | None = None,
    ) -> None:
        """Record an Event that occurred now. `controller` replaces the reporting controller, for a profile's name.

        `related` is a second object that the Event is about.
        """
        subject = regarding if isinstance(regarding, Regarding) else Regarding.pod(regarding)
        key = _Key(subject, type, reason, action, related)
        now = self._clock.now()
        series = self._series.get(key)
        if series is not None and now - series.seen_at < SERIES_FINISH_S:
            self._series.move_to_end(key)
            self._repeat(series, now)
            return
        event = self._event(key, note, controller or self._controller)
        worth = Worth.FAILURE if reason == FAILED else Worth.OUTCOME
        series = _Series(event, subject.uid, written_at=now, seen_at=now, worth=worth, keep_until=now + KEEP_S)
        self._remember(key, series)
        if self._queue.size or not self._send(series, None):
            self._enqueue(series)

    def record_scheduled(self, pod: Pod, node_name: str) -> None:
        """Record that the pod was bound to the node just now. It happens to a pod once, so no series may follow."""
        if not self._writes_scheduled:
            return
        meta, now = pod.metadata, self._clock.now()
        bound = _Bound(
            meta.namespace,
            meta.name,
            meta.uid,
            meta.resource_version,
            pod.spec.scheduler_name,
            node_name,
            self._clock.wall(),
        )
        series = _Series(bound, meta.uid, written_at=now, seen_at=now, keep_until=now + KEEP_S)
        hold, held = self._hold, self._held
        if hold is None or self._together is None or self._queue.size or self._is_away:
            # Nearly always it is sent at once: then nothing needs the queue, nor a worker.
            if self._queue.size or not self._send(series, None):
                self._enqueue(series)
            return
        held.append(series)
        if len(held) == 1:
            hold.set(asyncio.get_running_loop().time() + LONGEST_HOLD_S)
        elif len(held) >= MOST_HELD or now >= held[0].seen_at + HOLD_S:
            hold.cancel()
            self._send_held()

    def _event_of(self, series: _Series) -> Event:
        """Return the Event of a series; a Scheduled Event is made when it is needed."""
        bound = series.content
        if isinstance(bound, Event):
            return bound
        name, namespace, uid = bound.name, bound.namespace, bound.uid
        note = f"Successfully assigned {namespace}/{name} to {bound.node_name}"
        regarding = Regarding("Pod", "v1", namespace, name, uid, bound.resource_version)
        event = Event(
            namespace,
            scheduled_name(name, uid) if uid else self._name(regarding, SCHEDULED, bound.wall_s),
            regarding,
            "Normal",
            SCHEDULED,
            "Binding",
            note if len(note) <= _SURELY_SHORT else cut_note(note),
            bound.scheduler_name,
            self._instance,
            bound.wall_s,
        )
        series.content = event
        return event

    def _send_held(self) -> None:
        """Send the Scheduled Events that are held, in one write if that can be done now; else they are queued."""
        held, self._held = self._held, []
        if not held:
            return
        events = [(self._event_of(series), partial(self._answered, series)) for series in held]
        # As in `_send`, one of `workers` is left for a worker that may be waiting with its Event in hand.
        may_send = self._is_running and not self._is_away and self._under_way + len(held) < self._workers
        if may_send and not self._queue.size and self._together is not None and self._together.send_events(events):
            self._under_way += len(held)
            return
        for series in held:
            self._enqueue(series)

    def record_past_binding(self, pod: Pod, wall_s: float) -> None:
        """Write the Scheduled Event, if missing, of a pod that an earlier leader bound at `wall_s`, Unix seconds."""
        meta = pod.metadata
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {pod.spec.node_name}"
        key = _Key(Regarding.pod(pod), "Normal", SCHEDULED, "Binding", None)
        event = self._event(key, note, pod.spec.scheduler_name)
        now = self._clock.now()
        event = replace(event, event_time_s=wall_s)
        series = _Series(event, pod.metadata.uid, written_at=now, seen_at=now, worth=Worth.SUPERSEDED)
        self._enqueue(series)

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.seen_at = now
        if series.failures:  # counted too when the write that failed is repeated
            return
        # The second occurrence is written at once, so that the Event shows that it recurs.
        if series.count == 2 or now - series.written_at >= SERIES_REFRESH_S:
            self._enqueue(series)

    def _remember(self, key: _Key, series: _Series) -> None:
        if not self._series:
            self._has_series.set()
        self._series.pop(key, None)
        self._series[key] = series
        while len(self._series) > self._max_series:
            self._series.popitem(last=False)

    def _event(self, key: _Key, note: str, controller: str) -> Event:
        subject, wall = key.regarding, self._clock.wall()
        return Event(
            namespace=subject.namespace or "default",  # where Events about cluster-scoped objects live
            name=self._name(subject, key.reason, wall),
            regarding=subject,
            type=key.type,
            reason=key.reason,
            action=key.action,
            note=note if len(note) <= _SURELY_SHORT else cut_note(note),
            reporting_controller=controller,
            reporting_instance=self._instance,
            event_time_s=wall,
            related=key.related,
        )

    def _name(self, subject: Regarding, reason: str, wall: float) -> str:
        """Return a unique Event name: the object's name and the nanoseconds in hex, as in client-go.

        For a Scheduled Event, of which each pod has only one, the hex digits are a digest of the pod's uid instead.
        """
        if reason == SCHEDULED and subject.uid:
            return scheduled_name(subject.name, subject.uid)
        self._last_name_ns = max(self._last_name_ns + 1, int(wall * 1e9))
        suffix = f".{self._last_name_ns:x}"
        return subject.name[: 253 - len(suffix)] + suffix

    def _enqueue(self, series: _Series) -> None:
        if series.is_queued:
            return
        if not series.keep_until:
            series.keep_until = self._clock.now() + KEEP_S
        was_empty = not self._queue.size
        if was_empty:
            self._behind_since = self._clock.now()
        dropped = self._queue.push(series, held_elsewhere=len(self._later))
        if dropped is not None:
            self._count_full(dropped)
        if was_empty and self._queue.size:
            self._filled.set()

    def _count_full(self, series: _Series) -> None:
        self.dropped += 1
        series.failures = 0
        series.keep_until = 0.0
        if self._on_dropped is not None:
            self._on_dropped("queue_full", series.worth.name.lower())
        if self.dropped == 1:
            log.warning("event queue is full, the least important are dropped", extra={"limit": self._max_queued})

    # --- sending ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write Events until cancelled."""
        self._is_running = True
        self._is_taking = False
        self._next_takers.clear()
        self._hold = Alarm(asyncio.get_running_loop(), self._send_held)
        try:
            await run_together(*(self._work() for _ in range(self._workers)), self._return_failed(), self._sweep())
        finally:
            self._is_running = False
            self._hold.cancel()
            self._hold = None
            self._send_held()  # into the queue
            await cancel_and_wait(*self._tasks)

    async def drain(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds until all Events are written; False if some are not.

        Those of `record_past_binding` that still wait are dropped: nearly all of them were written long ago, and the
        next leader, which saw the same bindings, writes them as well. `run` must still be running.
        """
        for series in self._series.values():
            if series.count > series.written_count and series.failures == 0:
                self._enqueue(series)
        self._send_held()
        self._return_due(float("inf"))
        dropped = self._queue.drop_superseded(_is_of_past_binding)
        if dropped:
            log.info("events of earlier leaders' bindings are left to the next leader", extra={"events": dropped})
        if not self._under_way and not self.queued:
            return True
        if self._idle is None:
            self._idle = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._idle], timeout=timeout_s)
        if not self._under_way and not self.queued:
            return True
        left = {worth.name.lower(): self._queue.waiting(worth) for worth in Worth}
        log.warning("stopping before all events were sent", extra={**left, "failed_before": len(self._later)})
        return False

    async def _work(self) -> None:
        """Write Events, one after the other, as one of several workers.

        Each waits for its turn and a slot, takes the most important Event, writes it, and keeps it for later if that
        failed.
        """
        loop, next_takers = asyncio.get_running_loop(), self._next_takers
        while True:
            if self._is_taking:
                turn: asyncio.Future[None] = loop.create_future()
                next_takers.append(turn)
                await turn
            self._is_taking = True
            series, slot = await self._take()
            while self._send_waiting(series, slot):
                if self._under_way >= self._workers:
                    self._ended.clear()
                    await self._ended.wait()
                series, slot = await self._take()
            if next_takers:
                next_takers.popleft().set_result(None)
            else:
                self._is_taking = False
            error = await self._deliver(series, slot)
            if isinstance(error, (Unreachable, TooManyRequests)) and not self._is_away:
                await self._wait_for_apiserver(error)

    def _send(self, series: _Series, slot: EventSlot | None) -> bool:
        """Begin to write a new Event the cheap way, whose answer is a call. Returns False if it needs the other way.

        Without a slot it is sent if one is free now, no Event waits for one, and the apiserver takes Events.
        """
        if self._direct is None or series.count > 1:
            return False
        # One of `workers` is left for a worker that may be waiting with its Event in hand.
        if slot is None and not (self._is_running and self._under_way < self._workers - 1 and not self._is_away):
            return False
        if not self._direct.send_event(self._event_of(series), slot, partial(self._answered, series)):
            return False
        self._under_way += 1
        return True

    def _send_waiting(self, series: _Series, slot: EventSlot) -> bool:
        """Begin to write a new Event that has its slot, as `_send` does, in one write with others that wait.

        One that failed may do so again, and goes alone.
        """
        most = min(MOST_HELD - 1, self._queue.size, self._workers - 1 - self._under_way)
        if self._together is None or most <= 0 or series.count > 1 or series.failures:
            return self._send(series, slot)
        all_series = [series]
        tokens = self._together.take_event_tokens(most)
        for _ in range(tokens):
            more = self._queue.pop()
            assert more is not None  # there are at least `most`
            if more.count > 1 or more.failures:
                self._start(self._deliver(more, None))
            else:
                all_series.append(more)
        events = [(self._event_of(each), partial(self._answered, each)) for each in all_series]
        alone = tokens - (len(events) - 1)
        if alone:
            self._together.put_back_event_tokens(alone)
        if self._together.send_events(events, slot):
            self._under_way += len(events)
            return True
        self._together.put_back_event_tokens(len(events) - 1)
        for more in all_series[1:]:
            self._enqueue(more)
        return False

    def _answered(self, series: _Series, error: APIError | None) -> None:
        """Handle the answer to an Event that was sent by `_send`."""
        self._under_way -= 1
        if self._under_way == self._workers - 1:
            self._ended.set()
        if error is not None and error.status == 401:  # the other way reads the token again
            self._start(self._deliver(series, None))
            return
        if error is None:  # as `_written`, without its call
            series.written_count = 1
            series.written_at = self._clock.now()
            series.failures = 0
            series.keep_until = 0.0
        elif isinstance(error, Conflict):  # created by an attempt whose answer was lost
            self._written(series, 1)
        else:
            self._not_written(series, error)
        if self._idle is not None:
            self._note_idle()
        if error is not None and isinstance(error, (Unreachable, TooManyRequests)) and not self._is_away:
            self._is_away = True
            self._is_back.clear()
            self._start(self._wait_for_apiserver(error))

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, *, is_probe: bool = False) -> tuple[_Series, EventSlot]:
        """Wait for a slot, and only then choose the Event, since a more important one may have come meanwhile."""
        while True:
            if self._is_away and not is_probe:
                await self._is_back.wait()
            if not self._queue.size:
                self._filled.clear()
                await self._filled.wait()
                continue
            waited_s = self._clock.now() - self._behind_since
            slot = None if self._direct is None else self._direct.take_event_slot(waited_s)
            if slot is None:
                slot = await self._client.event_slot(waited_s)
            series = self._queue.pop() if is_probe or not self._is_away else None
            if series is not None:
                return series, slot
            slot.give_back()

    async def _wait_for_apiserver(self, error: APIError | None) -> None:
        """Try one Event at a time until the apiserver answers, while all other workers wait.

        An Event that has just failed still waits for its own delay, since a webhook may never answer it. Another one
        shows whether Events can be written.
        """
        self._is_away = True
        self._is_back.clear()
        try:
            while isinstance(error, (Unreachable, TooManyRequests)):
                await asyncio.sleep(self._backoff.next_s(error.retry_after_s))
                error = await self._deliver(*await self._take(is_probe=True))
        finally:
            self._backoff.reset()
            self._is_away = False
            self._is_back.set()

    async def _deliver(self, series: _Series, slot: EventSlot | None) -> APIError | None:
        """Create or patch the Event, and return the error if that failed.

        After a transient error it is repeated later.
        """
        self._under_way += 1
        try:
            await self._write(series, slot)
        except APIError as error:
            self._not_written(series, error)
            return error
        else:
            return None
        finally:
            self._under_way -= 1
            if self._under_way == self._workers - 1:
                self._ended.set()
            self._note_idle()

    def _written(self, series: _Series, count: int) -> None:
        series.written_count = count
        series.written_at = self._clock.now()
        series.failures = 0
        series.keep_until = 0.0

    def _not_written(self, series: _Series, error: APIError) -> None:
        if self._idle is not None and series.worth is Worth.SUPERSEDED and _is_of_past_binding(series):
            return  # it is not waited for: the next leader writes it
        if error.is_transient and self._clock.now() < series.keep_until:
            self._keep(series, error)
        else:
            self._give_up(series, error)

    def _note_idle(self) -> None:
        if self._idle is not None and not self._under_way and not self.queued:
            if not self._idle.done():
                self._idle.set_result(None)
            self._idle = None

    # --- repeating ----------------------------------------------------------------------------------------------

    def _keep(self, series: _Series, error: APIError) -> None:
        """Schedule a failed write for later, so that a webhook that fails in one namespace does not block others."""
        if series.is_queued:  # counted once more meanwhile: it goes again anyway
            return
        # New Events find room even if all writes fail: at most half of it is for repeats.
        if len(self._later) >= (self._max_queued + 1) // 2:
            self._count_full(series)
            return
        if self.queued >= self._max_queued:
            dropped = self._queue.make_room(series.worth) or series
            self._count_full(dropped)
            if dropped is series:
                return
        delay_s = min(_REPEAT_S * 2.0 ** min(series.failures, 6), _REPEAT_MOST_S) * self._rng.uniform(0.5, 1.0)
        delay_s = max(delay_s, error.retry_after_s or 0.0)
        series.failures += 1
        heapq.heappush(self._later, (self._clock.now() + delay_s, next(self._arrival), series))
        self._some_later.set()

    def _return_due(self, now: float) -> None:
        """Put Events whose repetition is due back into the queue, where its order and capacity apply."""
        while self._later and self._later[0][0] <= now:
            series = heapq.heappop(self._later)[2]
            if series.count > series.written_count:  # else it was counted once more, and written, meanwhile
                self._enqueue(series)
        if not self._later:
            self._some_later.clear()

    async def _return_failed(self) -> None:
        while True:
            await self._some_later.wait()
            await asyncio.sleep(_RETURN_TICK_S)
            self._return_due(self._clock.now())

    async def _write(self, series: _Series, slot: EventSlot | None) -> None:
        count = series.count
        event = self._event_of(series)
        if count > 1:
            last_s = self._clock.wall() - (self._clock.now() - series.seen_at)
            event = replace(event, series=EventSeries(count, last_s))
        try:
            if count > 1 and series.written_count > 0:
                await self._client.patch_event_series(event, slot)
            else:
                await self._client.create_event(event, slot)
        except NotFound:
            if count == 1:
                raise  # the namespace is gone
            await self._client.create_event(event)  # the Event had expired
        except Conflict:
            pass  # created by an attempt whose answer was lost
        self._written(series, count)

    def _give_up(self, series: _Series, error: APIError) -> None:
        self.failed += 1
        if self._on_dropped is not None:
            self._on_dropped("error", series.worth.name.lower())
        series.failures = 0
        series.keep_until = 0.0
        series.written_count = series.count  # a repetition starts afresh: its patch finds nothing and creates
        event = self._event_of(series)
        log.log(
            logging.WARNING if self.failed == 1 else logging.DEBUG,
            "event not sent",
            extra={"object": f"{event.namespace}/{event.regarding.name}", "reason": event.reason, "err": str(error)},
        )

    async def _sweep(self) -> None:
        """Loop: write the counts of Event series that go on, and forget series that have ended."""
        while True:
            if not self._series:
                self._has_series.clear()
                await self._has_series.wait()
            await asyncio.sleep(_SWEEP_S)
            now = self._clock.now()
            for key, series in list(self._series.items()):
                is_over = now - series.seen_at >= SERIES_FINISH_S
                unwritten = series.count > series.written_count and not series.failures  # else it is repeated anyway
                if unwritten and (is_over or now - series.written_at >= SERIES_REFRESH_S):
                    self._enqueue(series)
                if is_over:
                    del self._series[key]


def _is_of_past_binding(superseded: _Series) -> bool:
    """Return True for a superseded Event that is a Scheduled one; all others are failures."""
    content = superseded.content
    return isinstance(content, Event) and content.reason == SCHEDULED


def scheduled_name(name: str, uid: str) -> str:
    """Return the name of a pod's Scheduled Event, which every replica gives it."""
    return f"{name[:236]}.{hashlib.blake2b(uid.encode(), digest_size=8).hexdigest()}"


def cut_note(note: str) -> str:
    """Shorten a note to 1,024 bytes of UTF-8; a shortened one ends in ` ...`, as in kube-scheduler."""
    raw = note.encode()
    if len(raw) <= NOTE_BYTES:
        return note
    return raw[: NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
