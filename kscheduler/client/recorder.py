"""Events for users (`kubectl describe pod`), on a lane of their own: recording never blocks and never fails.

As client-go's broadcaster does: the first occurrence creates an Event; the second turns it into a series; later ones
are counted and written when the series is refreshed or ends. Occurrences are the same when the object and its
version, type, reason and action are. The note may differ: the first stays; but a pod whose condition says something
new has another version, so its next Event says it too. Beyond client-go all memory is bounded: the queue drops its
oldest, and the series seen longest ago are forgotten. Rate limits are the client's (Events have their own there).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from typing import NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.client.backoff import Backoff
from kscheduler.client.concurrency import run_together, wait_event
from kscheduler.client.protocol import Client, Event, EventSeries, Regarding
from kscheduler.clock import Clock
from kscheduler.errors import APIError, Conflict, NotFound, TooManyRequests, Unreachable

log = logging.getLogger(__name__)

NOTE_BYTES = 1024  # the API's limit
_CUT = " ..."
SERIES_FINISH_S = 360.0  # client-go's: a series that was quiet for so long is over
SERIES_REFRESH_S = 1800.0  # client-go's: how often a lasting series is written
_SWEEP_S = 60.0
MAX_ATTEMPTS = 6


class _Key(NamedTuple):
    """What makes two occurrences the same."""

    regarding: Regarding  # with its resource version, as in client-go
    type: str
    reason: str
    action: str
    related: Regarding | None


@dataclass(slots=True)
class _Series:
    """One Event known to the apiserver, or about to be, and what has happened since it was written."""

    event: Event
    written_at: float  # monotonic
    seen_at: float
    count: int = 1
    written_count: int = 0  # of `count`, what the apiserver was told
    queued: bool = False


class EventRecorder:
    """`run` it as a task; `record` from anywhere on the loop; `drain` before the end."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        *,
        controller: str,
        instance: str,
        workers: int = 4,
        max_queued: int = 50_000,  # about 1 KB each
        max_series: int = 4096,
    ) -> None:
        """`controller` is the scheduler's name, `instance` tells its replicas apart (each at most 128 bytes)."""
        self._client = client
        self._clock = clock
        self._rng = rng
        self._controller = controller
        self._instance = instance[:128]
        self._workers = workers
        self._max_queued = max_queued
        self._max_series = max_series
        self._queue: deque[_Series] = deque()
        self._series: OrderedDict[_Key, _Series] = OrderedDict()  # least recently seen first
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0
        self._last_name_ns = 0
        self.dropped = 0  # occurrences lost because the queue was full
        self.failed = 0  # Events given up after the last attempt
        self.sent = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

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
        """Note that something happened now. `controller` overrides the reporting controller (a profile's name).

        `related` is a second object that it has to do with.
        """
        subject = regarding if isinstance(regarding, Regarding) else Regarding.pod(regarding)
        key = _Key(subject, type, reason, action, related)
        now = self._clock.now()
        series = self._series.get(key)
        if series is not None and now - series.seen_at < SERIES_FINISH_S:
            self._series.move_to_end(key)
            self._repeat(series, now)
            return
        event = self._event(subject, type, reason, action, cut_note(note), controller or self._controller, related)
        series = _Series(event, written_at=now, seen_at=now)
        self._remember(key, series)
        self._enqueue(series)

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.seen_at = now
        # The second occurrence is written at once, so that the Event shows that it recurs.
        if series.count == 2 or now - series.written_at >= SERIES_REFRESH_S:
            self._enqueue(series)

    def _remember(self, key: _Key, series: _Series) -> None:
        self._series.pop(key, None)
        self._series[key] = series
        while len(self._series) > self._max_series:
            self._series.popitem(last=False)

    def _event(
        self,
        subject: Regarding,
        type: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        related: Regarding | None,
    ) -> Event:
        wall = self._clock.wall()
        return Event(
            namespace=subject.namespace or "default",  # where Events about cluster-scoped objects live
            name=self._name(subject.name, wall),
            regarding_kind=subject.kind,
            regarding_api_version=subject.api_version,
            regarding_namespace=subject.namespace,
            regarding_name=subject.name,
            regarding_uid=subject.uid,
            regarding_resource_version=subject.resource_version,
            type=type,
            reason=reason,
            action=action,
            note=note,
            reporting_controller=controller,
            reporting_instance=self._instance,
            event_time_s=wall,
            related=related,
        )

    def _name(self, subject: str, wall: float) -> str:
        """The subject's name and the nanoseconds in hex, as client-go's; made unique, the clock may stand still."""
        self._last_name_ns = max(self._last_name_ns + 1, int(wall * 1e9))
        suffix = f".{self._last_name_ns:x}"
        return subject[: 253 - len(suffix)] + suffix

    def _enqueue(self, series: _Series) -> None:
        if series.queued:
            return
        if len(self._queue) >= self._max_queued:
            self._queue.popleft().queued = False
            self.dropped += 1
            if self.dropped == 1:
                log.warning("event queue is full, the oldest events are dropped", extra={"limit": self._max_queued})
        series.queued = True
        self._queue.append(series)
        self._idle.clear()
        self._filled.set()

    # --- sending ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send until cancelled."""
        await run_together(*(self._work() for _ in range(self._workers)), self._sweep())

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything recorded is sent; False if that took longer. `run` must still be running."""
        for series in self._series.values():
            if series.count > series.written_count:
                self._enqueue(series)
        return await wait_event(self._idle, timeout_s)

    async def _work(self) -> None:
        backoff = Backoff(self._rng, initial_s=0.5, maximum_s=10.0)
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            series = self._queue.popleft()
            series.queued = False
            self._under_way += 1
            try:
                await self._deliver(series, backoff)
            finally:
                self._under_way -= 1
                if not self._queue and not self._under_way:
                    self._idle.set()

    async def _deliver(self, series: _Series, backoff: Backoff) -> None:
        """Create or patch; try again where that may help, else give this one up."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                await self._write(series)
                self.sent += 1
                backoff.reset()
                return
            except APIError as error:
                if attempt == MAX_ATTEMPTS or not _may_pass(error):
                    self._give_up(series, error)
                    return
                await asyncio.sleep(backoff.next_s(error.retry_after_s))

    async def _write(self, series: _Series) -> None:
        count = series.count
        event = series.event
        if count > 1:
            last_s = self._clock.wall() - (self._clock.now() - series.seen_at)
            event = replace(event, series=EventSeries(count, last_s))
        try:
            if count > 1 and series.written_count > 0:
                await self._client.patch_event_series(event)
            else:
                await self._client.create_event(event)
        except NotFound:
            if count == 1:
                raise  # the namespace is gone
            await self._client.create_event(event)  # the Event had expired
        except Conflict:
            pass  # created by an attempt whose answer was lost
        series.written_count = count
        series.written_at = self._clock.now()

    def _give_up(self, series: _Series, error: APIError) -> None:
        self.failed += 1
        series.written_count = series.count  # a repetition starts afresh: its patch finds nothing and creates
        event = series.event
        log.log(
            logging.WARNING if self.failed == 1 else logging.DEBUG,
            "event not sent",
            extra={"object": f"{event.namespace}/{event.regarding_name}", "reason": event.reason, "error": str(error)},
        )

    async def _sweep(self) -> None:
        """Write what lasting series have counted, and forget those that are over."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = self._clock.now()
            for key, series in list(self._series.items()):
                is_over = now - series.seen_at >= SERIES_FINISH_S
                unwritten = series.count > series.written_count
                if unwritten and (is_over or now - series.written_at >= SERIES_REFRESH_S):
                    self._enqueue(series)
                if is_over:
                    del self._series[key]


def _may_pass(error: APIError) -> bool:
    return isinstance(error, (TooManyRequests, Unreachable)) or error.status >= 500


def cut_note(note: str) -> str:
    """At most 1,024 bytes of UTF-8, the cut marked by ` ...`, as kube-scheduler does."""
    raw = note.encode()
    if len(raw) <= NOTE_BYTES:
        return note
    return raw[: NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
