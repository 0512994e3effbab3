"""A scheduler that records what its decisions depend on, and its decisions.

Everything that changes cache or queue is an input: a watch event, the moment at which pods are woken, a batch of
decisions, the outcome of a binding, a step of a task. Inputs do not overlap. Within one, the scheduler's clock stands
still, so that one reading is all there is to record; readings are whole microseconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kscheduler import __version__
from kscheduler.api.objects import APIObject
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.informer import Handler, Informer
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.kinds import Resource
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.clock import Clock
from kscheduler.config.dump import to_yaml
from kscheduler.config.queues import keeps_queues, queues_args
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.cycle.bindings import Bindings
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_batch import ScheduleBatch
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import APIError, ConfigError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.record.background import BackgroundWriter
from kscheduler.record.entries import (
    FORMAT,
    Answered,
    Change,
    ChangeType,
    Decided,
    Decision,
    Divided,
    End,
    Entry,
    Failure,
    Header,
    Request,
    Resumed,
    Retried,
    Start,
    Synced,
    Woken,
    Written,
)
from kscheduler.record.kept_fields import encoded
from kscheduler.record.recorded_kinds import KINDS, name_of
from kscheduler.replay.edge import EdgeClaims, EdgeEvictions, EdgeStatuses, EdgeWaitingPods, NotedCycles, at_edge
from kscheduler.scheduler import Options, Scheduler
from kscheduler.watch.share_queue_divisions import ShareDivisionWatch

if TYPE_CHECKING:
    from kscheduler.gangs.assembly import GangParts

log = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_S = 1.0  # between writes to the file; so much is lost if the scheduler is killed
WALL_US = 1_000  # a change of the wall clock by more than this is recorded

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Where a scheduler records itself, and how much."""

    path: Path
    part_bytes: int = 0  # size at which another file is begun; 0: no limit
    keep_parts: int = 0  # how many of the newest files are kept; 0: all


class InputClock:
    """The clock of a recorded scheduler: it stands still during an input. Implements `Clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at: float | None = None  # the time of the input that is being handled; None between inputs
        self.wall_us = 0  # what is added to get Unix time

    def now(self) -> float:
        return self.microseconds() / 1e6 if self.at is None else self.at

    def wall(self) -> float:
        return self._clock.wall() if self.at is None else self.at + self.wall_us / 1e6

    def microseconds(self) -> int:
        return int(self._clock.now() * 1e6)

    def wall_microseconds(self) -> int:
        return int(self._clock.wall() * 1e6)


class Inputs:
    """Writes the inputs of a scheduler. Each is begun, and ended before the next one; a task's run is ended by it.

    As a context it is one input that happens now.
    """

    def __init__(self, clock: InputClock, writer: BackgroundWriter, start_us: int) -> None:
        self._clock = clock
        self._writer = writer
        self._start_us = start_us
        self._tickets = 0
        self._requests: list[Request] = []  # of this input
        self._decisions: list[Decision] = []
        self._resumed: Resumed | None = None  # the run of a task that is under way
        self._key = os.urandom(16)  # for digests of what is not recorded; forgotten at the end
        self.at = 0.0  # of this input, in seconds since the start

    def begin(self, now: float | None = None) -> None:
        """Begin an input, at a reading of the clock or now."""
        if self._resumed is not None:
            self.suspend()
        clock = self._clock
        us = clock.microseconds() if now is None else round(now * 1e6)
        clock.at = us / 1e6
        self.at = (us - self._start_us) / 1e6

    def end(self) -> None:
        self._clock.at = None

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *error: object) -> None:
        self.end()

    # --- the kinds of inputs --------------------------------------------------------------------------------------

    def change(self, resource: str, kind: ChangeType, obj: APIObject) -> None:
        self._writer.write(Change(self.at, resource, kind, encoded(obj, self._key)))

    def woken(self) -> None:
        clock = self._clock
        wall_us = clock.wall_microseconds() - round((clock.at or 0.0) * 1e6)
        has_jumped = abs(wall_us - clock.wall_us) > WALL_US
        if has_jumped:
            clock.wall_us = wall_us
        self._writer.write(Woken(self.at, wall_us if has_jumped else None))

    def note(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def decided(self, most: int) -> None:
        self._writer.write(Decided(self.at, most, tuple(self._decisions), tuple(self._requests)))
        self._decisions.clear()
        self._requests.clear()

    def written(self, uid: str, error: APIError | None) -> None:
        self._writer.write(Written(self.at, uid, None if error is None else failure(error)))

    def answered(self, has_succeeded: bool) -> None:
        self._writer.write(Answered(self.at, has_succeeded))

    def divided(self) -> None:
        self._writer.write(Divided(self.at))

    def retried(self) -> None:
        self._writer.write(Retried(self.at))

    # --- tasks ----------------------------------------------------------------------------------------------------

    def request(self, verb: str, subject: str) -> int:
        self._tickets += 1
        self._requests.append(Request(self._tickets, verb, subject))
        return self._tickets

    def resume(self, ticket: int, value: object = None, error: BaseException | None = None) -> None:
        self.begin()
        found = None if error is None else failure(error)
        self._resumed = Resumed(self.at, ticket, msgspec.Raw(_encode(value)), found)

    def suspend(self) -> None:
        """End the run of a task, because it waits or has ended."""
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return
        requests = tuple(self._requests)
        self._requests.clear()
        self._writer.write(Resumed(resumed.at, resumed.ticket, resumed.value, resumed.error, requests))
        self.end()


class RecordedEdge:
    """Records what tasks waited for, and when they went on. Implements `Edge`."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    async def wait(self, verb: str, subject: str, call: Callable[[], Awaitable[T]], kind: type[Any]) -> T:
        inputs = self._inputs
        ticket = inputs.request(verb, subject)
        inputs.suspend()
        try:
            value = await call()
        except BaseException as error:
            inputs.resume(ticket, error=error)
            raise
        inputs.resume(ticket, _plain(value))
        return value

    def task(self, verb: str, subject: str, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        return self._run(self._inputs.request(verb, subject), work)

    async def _run(self, ticket: int, work: Coroutine[Any, Any, None]) -> None:
        self._inputs.resume(ticket)
        try:
            await work
        finally:
            self._inputs.suspend()


def _plain(value: object) -> object:
    """Return what stands for the value in a record: a status, or a plugin's status and its exception, as lists."""
    if isinstance(value, Status):
        return [int(value.code), value.reasons, value.plugin]
    if isinstance(value, tuple):
        answer, fault = value
        is_valid = answer is None or isinstance(answer, Status)
        return [_plain(answer) if is_valid else None, None if fault is None else failure(fault)]
    return value


def failure(error: BaseException) -> Failure:
    if isinstance(error, APIError):
        return Failure(type(error).__name__, str(error), error.status, error.reason)
    return Failure(type(error).__name__, str(error))


class RecordedEvents(Generic[T]):
    """Records the changes of one kind and passes them on. Implements `Handler`."""

    def __init__(self, resource: str, handler: Handler[T], inputs: Inputs) -> None:
        self._resource = resource
        self._handler = handler
        self._inputs = inputs

    def on_add(self, obj: T) -> None:
        self._handle("ADDED", obj, self._handler.on_add, obj)

    def on_update(self, old: T, new: T) -> None:
        self._handle("MODIFIED", new, self._handler.on_update, old, new)

    def on_delete(self, obj: T) -> None:
        self._handle("DELETED", obj, self._handler.on_delete, obj)

    def _handle(self, kind: ChangeType, obj: Any, handle: Callable[..., None], *args: T) -> None:
        with self._inputs:
            self._inputs.change(self._resource, kind, obj)
            handle(*args)


class RecordedQueue(SchedulingQueue):
    """A queue that records when it moves pods by time, as it is asked to at the beginning of a slice of decisions.

    That input lasts until the next one, or the end of the slice, because other parts are asked for due pods after it.
    """

    inputs: Inputs

    def flush(self, now: float) -> int:
        self.inputs.begin(now)
        self.inputs.woken()
        return super().flush(now)


class RecordedBindings(Bindings):
    """All bindings under way, with the outcomes of those that no task writes recorded."""

    inputs: Inputs

    def _run(self, cycle: BindingCycle) -> Coroutine[Any, Any, None]:
        return self._one.bind(cycle)  # with its binding: in a record a task ends with the outcome of that

    def _finish(self, cycle: BindingCycle, error: APIError | None) -> None:
        with self.inputs:
            self.inputs.written(cycle.pod.uid, error)
            super()._finish(cycle, error)


class RecordedBatch(ScheduleBatch):
    """Batches of decisions, recorded."""

    inputs: Inputs
    _placed_all = False  # the compiled lane placed all pods that it was asked for
    _was_alone = False  # the pod was decided by itself, not as one of a batch

    def run(self, now: float, most: int) -> int:
        inputs, size = self.inputs, min(self._size, most)
        self._was_alone = False
        inputs.begin(now)
        try:
            tried = super().run(now, most)
            if tried:
                # If the lane was not asked for all of the batch, because of a pod whose decision was to be explained,
                # then the batch ended with that pod.
                inputs.decided(tried if self._was_alone or self._placed_all else size)
            return tried
        finally:
            inputs.end()

    def _run_alone(self, now: float) -> int:
        self._was_alone = True
        return super()._run_alone(now)

    def _place(self, batch: Sequence[QueuedPodInfo], now: float) -> int:
        done = super()._place(batch, now)
        self._placed_all = done == len(batch)
        return done


class RecordedRefusedPods(RefusedPods):
    inputs: Inputs

    def try_one(self) -> None:
        with self.inputs:
            self.inputs.retried()
            super().try_one()


class RecordedDivisions(ShareDivisionWatch):
    inputs: Inputs

    def look(self) -> None:
        with self.inputs:
            self.inputs.divided()
            super().look()


class RecordedScheduler(Scheduler):
    """A scheduler that records itself. Raises ConfigError for parts that decide by what no record contains."""

    queue_type = RecordedQueue
    one_type = NotedCycles
    batch_type = RecordedBatch
    bindings_type = RecordedBindings

    def __init__(
        self,
        client: Client,
        config: SchedulerConfig,
        *,
        recording: RecordingOptions,
        clock: Clock,
        rng: random.Random,
        options: Options,
        **others: Any,
    ) -> None:
        self._recording = recording
        self._input_clock = input_clock = InputClock(clock)
        self._start_us = input_clock.microseconds()
        input_clock.wall_us = input_clock.wall_microseconds() - self._start_us
        self.started = (self._start_us + input_clock.wall_us) / 1e6  # Unix time; equal in all files of the record
        self._seed = rng.getrandbits(64)
        self._configuration = to_yaml(config)
        self._release = config.release
        self.writer = writer = BackgroundWriter(recording.path, keep_parts=recording.keep_parts)
        self._inputs = inputs = Inputs(input_clock, writer, self._start_us)
        self._edge = RecordedEdge(inputs)
        self._is_begun = False  # everything was listed, and the first decisions may follow
        self._has_failed = False
        self._write_header()
        writer.write(
            Start(
                self._start_us,
                input_clock.wall_us,
                self._seed,
                options.first_on_tie,
                options.compiled_lane,
                options.max_in_unschedulable_s,
                options.assumed_pod_ttl_s,
            )
        )
        try:
            super().__init__(client, config, clock=input_clock, rng=rng, options=options, **others)
            self._refuse_unrecorded(config)
        except BaseException:
            writer.close()
            writer.parts[0].unlink(missing_ok=True)
            raise
        one, evictions = self._schedule_one, self._evictions
        assert isinstance(one, NotedCycles)
        assert isinstance(evictions, EdgeEvictions)
        one.edge, one.evictions, one.note = self._edge, evictions, inputs.note
        for part in (self.queue, self._batch, self.bindings):
            assert isinstance(part, (RecordedQueue, RecordedBatch, RecordedBindings))
            part.inputs = inputs

    @property
    def parts(self) -> list[Path]:
        """The files of the record, oldest first."""
        return self.writer.parts

    # --- parts of the scheduler -----------------------------------------------------------------------------------

    def _build_handle(
        self, profiles: Mapping[str, Framework], release: Release, stopwatch: Callable[[], float]
    ) -> Handle:
        return at_edge(super()._build_handle(profiles, release, stopwatch), self._edge, self._seed)

    def _build_evictions(self, client: Client) -> Evictions:
        return EdgeEvictions(super()._build_evictions(client), self._edge)

    def _build_claims(self, client: Client) -> ClaimWrites:
        return EdgeClaims(super()._build_claims(client), self._edge)

    def _build_statuses(self, client: Client) -> PodStatusLane:
        return EdgeStatuses(client, self._edge)

    def _build_waiting_pods(self) -> WaitingPods:
        return EdgeWaitingPods(self._edge, self._work.set)

    def _build_refused_pods(self, pauses: RetryPauses) -> RefusedPods:
        refused = RecordedRefusedPods(self.queue, self._clock, pauses, self._work.set)
        refused.inputs = self._inputs
        return refused

    def _gang_parts(self) -> type[GangParts]:
        from kscheduler.replay.recorded_gangs import recorded_gang_parts

        return recorded_gang_parts(self._inputs)

    def _build_divisions(self) -> ShareDivisionWatch:
        divisions = RecordedDivisions(
            self.share_queues,
            self.queue,
            clock=self._clock,
            wake=self._work.set,
            demand_of_gang=self._demand_of_gang,
        )
        divisions.inputs = self._inputs
        return divisions

    def _events(self, resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
        name = name_of(resource)
        return RecordedEvents(name, handler, self._inputs) if name in KINDS else handler

    def _schedule_slice(self) -> bool:
        if not self._is_begun:
            self._is_begun = True
            self._inputs.begin()
            self._write(Synced(self._inputs.at))
        try:
            return super()._schedule_slice()
        finally:
            self._inputs.end()

    def _refuse_unrecorded(self, config: SchedulerConfig) -> None:
        guests = self._guests
        what = ""
        if self.extenders.deciders or self.extenders.binders:
            what = "extenders"
        elif self.live_metrics is not None:
            what = "live metrics"
        elif keeps_queues(config) and queues_args(config).file:
            what = "queues with shares that a file defines"
        elif guests is not None and (guests.needs_nodes or guests.needs_pods):
            what = "guests that read whole nodes or pods"
        if what:
            raise ConfigError(f"--record: expected a configuration whose decisions a record can hold, got {what}")

    def looked_for_guest(self, plugin: str, result: str, *, is_replaced: bool) -> None:
        if is_replaced:
            self.writer.failure = f"guest {plugin} was replaced, and a record holds decisions of one version only"
        super().looked_for_guest(plugin, result, is_replaced=is_replaced)

    # --- the file -------------------------------------------------------------------------------------------------

    async def observe(self) -> None:
        """Do what every scheduler does, and write the record. Runs until cancelled."""
        flushing = asyncio.ensure_future(self._flush_forever())
        try:
            await super().observe()
        finally:
            await cancel_and_wait(flushing)
            self.close()

    def close(self) -> None:
        """End the record, and wait until it is written."""
        self._inputs.suspend()
        with self._inputs:
            self._write(End(self._inputs.at))
        self.writer.close()
        self._report_failure()

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self.writer.flush()
            self._report_failure()
            if 0 < self._recording.part_bytes <= self.writer.size:
                self._begin_part()

    def _begin_part(self) -> None:
        """Begin another file, with all objects. Nothing is awaited, so no change can happen in between."""
        inputs = self._inputs
        inputs.begin()
        self._write(End(inputs.at))
        self.writer.next_part()
        self._write_header()
        for informer in self.informers:
            self._write_objects(informer)
        self._write(Synced(inputs.at))
        inputs.end()

    def _write_objects(self, informer: Informer[Any]) -> None:
        name = name_of(informer.resource)
        if name in KINDS:
            for obj in informer.store.values():
                self._inputs.change(name, "ADDED", obj)

    def _write_header(self) -> None:
        release = self._release
        header = Header(
            FORMAT,
            __version__,
            self.started,
            self.writer.number,
            self._configuration,
            release.version,
            release.set_gates,
        )
        self._write(header)

    def _write(self, entry: Entry) -> None:
        self.writer.write(entry)

    def _report_failure(self) -> None:
        if self.writer.failure and not self._has_failed:
            self._has_failed = True
            log.error("the record has ended; scheduling goes on", extra={"err": self.writer.failure})
