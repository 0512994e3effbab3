"""A scheduler that records what its decisions depend on, and its decisions.

Everything that changes cache or queue is an input: a watch event, the moment at which pods are woken, a batch of
decisions, the outcome of a binding, a step of a task. `replay.recorded_parts` has the parts that take them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kscheduler import __version__
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.informer import Handler, Informer
from kscheduler.client.kinds import Resource
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.clock import Clock
from kscheduler.config.dump import to_yaml
from kscheduler.config.queues import keeps_queues, queues_args
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import ConfigError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.record.background import BackgroundWriter
from kscheduler.record.entries import FORMAT, End, Entry, Header, Start, Synced
from kscheduler.record.recorded_kinds import KINDS, name_of
from kscheduler.replay.edge import EdgeClaims, EdgeEvictions, EdgeStatuses, EdgeWaitingPods, NotedCycles, at_edge
from kscheduler.replay.inputs import InputClock, Inputs, RecordedEdge
from kscheduler.replay.recorded_parts import (
    RecordedBatch,
    RecordedBindings,
    RecordedDivisions,
    RecordedEvents,
    RecordedQueue,
    RecordedRefusedPods,
)
from kscheduler.scheduler import Options, Scheduler
from kscheduler.watch.share_queue_divisions import ShareDivisionWatch

if TYPE_CHECKING:
    from kscheduler.gangs.assembly import GangParts

log = logging.getLogger(__name__)

FLUSH_S = 1.0  # between writes to the file; so much is lost if the scheduler is killed


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """Where a scheduler records itself, and how much."""

    path: Path
    part_bytes: int = 0  # size at which another file is begun; 0: no limit
    keep_parts: int = 0  # how many of the newest files are kept; 0: all


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
        input_clock = InputClock(clock)
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

    def _build_divisions(self, queues: ShareQueues) -> ShareDivisionWatch:
        divisions = RecordedDivisions(
            queues,
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
        if self.extenders is not None and (self.extenders.deciders or self.extenders.binders):
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
        self.writer.flush()  # its beginning, by which it is known for a record
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
