"""A scheduler without a client, a clock or a loop of its own, which takes its inputs from a record.

It has the parts of a running scheduler: handlers of events, cache, queue, profiles, cycles and preemption. `apply`
hands it one recorded input. What a running scheduler would send to the apiserver goes nowhere, and what it would wait
for is in the record.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kscheduler.api.objects import APIObject
from kscheduler.client.informer import Handler, Informer
from kscheduler.client.kinds import Resource
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.protocol import Client
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.config.releases import Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.cycle.binding_tasks import PreBindSteps
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_one import BindingCycle
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.errors import APIError, ConfigError, DecodeError
from kscheduler.framework.claim_writes import ClaimWrites
from kscheduler.framework.evictions import Evictions
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.observability.metrics import Metrics
from kscheduler.record.entries import (
    Answered,
    Change,
    Decided,
    Decision,
    Divided,
    Request,
    Resumed,
    Retried,
    Start,
    Woken,
    Written,
)
from kscheduler.record.recorded_kinds import DECODERS, name_of
from kscheduler.replay.edge import EdgeEvictions, EdgeStatuses, EdgeWaitingPods, NotedCycles, at_edge
from kscheduler.replay.replayed_edge import ReplayedEdge, exception_of
from kscheduler.replay.replayed_parts import (
    NoClaims,
    NoClient,
    NoEvictions,
    RecordedClock,
    ReplayedBatch,
    ReplayedBindings,
    ReplayedPreBinds,
)
from kscheduler.scheduler import Options, Scheduler
from kscheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.gangs.assembly import GangParts

log = logging.getLogger(__name__)

Input = Change | Woken | Divided | Decided | Written | Resumed | Retried | Answered


class ReplayedScheduler(Scheduler):
    """A scheduler that takes its inputs from a record. Use it within an event loop, which it never waits for."""

    one_type = NotedCycles
    batch_type = ReplayedBatch
    bindings_type = ReplayedBindings

    def __init__(self, config: SchedulerConfig, start: Start, options: Options) -> None:
        self._recorded_clock = clock = RecordedClock(start)
        self._seed = start.seed
        self._edge = ReplayedEdge()
        self._cycles: dict[str, BindingCycle] = {}
        self._forced: set[str] = set()  # uids of pods that were assumed only because the record says so
        self._handlers: dict[str, Handler[Any]] = {}
        self.decisions_made: list[Decision] = []  # since they were taken last
        super().__init__(
            cast(Client, NoClient()),
            config,
            clock=clock,
            rng=random.Random(start.seed),
            metrics=Metrics(process=False),
            stopwatch=clock.now,
            options=options,
        )
        one, bindings, evictions = self._schedule_one, self.bindings, self._evictions
        assert isinstance(one, NotedCycles)
        assert isinstance(bindings, ReplayedBindings)
        assert isinstance(evictions, EdgeEvictions)
        bindings.cycles = self._cycles
        one.edge, one.evictions, one.note = self._edge, evictions, self.decisions_made.append
        if self._deciding_extenders is not None or self.live_metrics is not None or self._needs_nodes():
            raise ConfigError("expected a configuration that a record suffices for, got extenders or live metrics")
        self._informer_of: Mapping[str, Informer[Any]] = {name_of(each.resource): each for each in self.informers}

    # --- parts of the scheduler -----------------------------------------------------------------------------------

    def _build_handle(
        self, profiles: Mapping[str, Framework], release: Release, stopwatch: Callable[[], float]
    ) -> Handle:
        return at_edge(super()._build_handle(profiles, release, stopwatch), self._edge, self._seed)

    def _build_evictions(self, client: Client) -> Evictions:
        return NoEvictions(super()._build_evictions(client), self._edge)

    def _build_claims(self, client: Client) -> ClaimWrites:
        return NoClaims(super()._build_claims(client), self._edge)

    def _build_statuses(self, client: Client) -> PodStatusLane:
        return EdgeStatuses(client, self._edge)

    def _build_waiting_pods(self) -> WaitingPods:
        return EdgeWaitingPods(self._edge, self._work.set)

    def _build_pre_binds(self) -> PreBindSteps:
        return ReplayedPreBinds()

    def _build_refused_pods(self, pauses: RetryPauses) -> RefusedPods:
        return RefusedPods(self.queue, self._clock, pauses, self._work.set)

    def _gang_parts(self) -> type[GangParts]:
        from kscheduler.replay.replayed_gangs import ReplayedGangParts

        return ReplayedGangParts

    def _around(self) -> Callable[[Resource[Any], Handler[Any]], Handler[Any]]:
        around = super()._around()

        def handler_of(resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
            made = around(resource, handler)
            self._handlers.setdefault(name_of(resource), made)
            return made

        return handler_of

    # --- inputs ---------------------------------------------------------------------------------------------------

    async def apply(self, entry: Input) -> None:
        """Take part as the recorded scheduler did. Raises ConfigError if the record holds what no scheduler writes."""
        self._recorded_clock.set(entry.at)
        if isinstance(entry, Change):
            self.apply_change(entry)
        elif isinstance(entry, Decided):
            await self.decide(entry.most)
        elif isinstance(entry, Woken):
            if entry.wall is not None:
                self._recorded_clock.wall_us = entry.wall
            self._schedule_slice()  # where bindings have no room, it only moves the pods whose time has come
        elif isinstance(entry, Divided):
            if self._divisions is not None:
                self._divisions.look()
        elif isinstance(entry, Written):
            self._finish_binding(entry)
        elif isinstance(entry, Resumed):
            self._edge.resume(entry)
        elif isinstance(entry, Retried):
            self._refused_pods.try_one()
        elif self.gangs is not None:
            self.gangs.finished.answer(entry.succeeded)

    def _finish_binding(self, entry: Written) -> None:
        cycle = self._cycles.pop(entry.uid, None)
        if cycle is not None:
            error = None if entry.error is None else cast(APIError, exception_of(entry.error))
            self._schedule_one.finish_binding(cycle, error)
        elif entry.uid in self._forced:
            self._forced.discard(entry.uid)
            state = self.cache.get(entry.uid)
            if entry.error is not None and state is not None and self.cache.forget(entry.uid):
                self.queue.add(state.pod, self._clock.now())

    async def decide(self, most: int) -> None:
        """Decide a batch of at most so many pods."""
        self._batch.run(self._clock.now(), most)
        if self._batch.is_waiting:
            await self._batch.get_answers()

    def take_decisions(self) -> Sequence[Decision]:
        """Return the decisions since the last call."""
        taken = tuple(self.decisions_made)
        self.decisions_made.clear()
        return taken

    def correct(self, recorded: Decision, made: Decision | None) -> None:
        """Put the pod where the recorded decision put it, so that the next decision has the same past."""
        uid, now = recorded.uid, self._clock.now()
        cycle = self._cycles.pop(uid, None)
        if cycle is not None:
            self._schedule_one.withdraw(cycle)
        elif made is not None and made.node:
            self.cache.forget(uid)
        pod = self._known(recorded)
        if recorded.node:
            self.queue.done(uid)
            self.queue.delete(uid)
            self.nominations.remove(uid)
            if pod is not None and self.cache.get(uid) is None:
                self.cache.assume(pod, recorded.node)
                self._forced.add(uid)
            return
        if cycle is not None:
            self.queue.add_unschedulable_if_not_present(cycle.queued, now, {*recorded.plugins}, {*recorded.pending})
        if pod is not None:
            self.nominations.nominate(pod, recorded.nominated)

    def _known(self, decision: Decision) -> PodInfo | None:
        pod = self._known_pods.get(decision.pod)
        if pod is None or pod.metadata.uid != decision.uid:
            return None
        return PodInfo(pod, self.release.sums_resizes_apart)

    def match_requests(self, recorded: Sequence[Request]) -> list[tuple[str, str]]:
        """Give this input's requests their recorded tickets; return verb and subject of all that were made."""
        return self._edge.match(recorded)

    def close(self) -> None:
        """End the tasks that still wait."""
        self._edge.close()

    def apply_change(self, entry: Change) -> None:
        """Store the changed object and call its handler; nothing if this scheduler does not watch the kind.

        Raises ConfigError if the object cannot be read.
        """
        self._recorded_clock.set(entry.at)
        if entry.resource not in DECODERS:
            raise ConfigError(f"expected one of {', '.join(DECODERS)}, got a change of {entry.resource[:60]!r}")
        try:
            obj: APIObject = DECODERS[entry.resource](entry.object)
        except DecodeError as error:
            raise ConfigError(f"expected an object of {entry.resource}: {error}") from None
        informer = self._informer_of.get(entry.resource)
        if informer is not None:
            self.take_event(informer, entry.type, obj)

    def take_event(self, informer: Informer[Any], kind: str, obj: APIObject) -> None:
        """Store the object and call the handler as the informer does."""
        key, handler, store = obj.key, self._handlers[name_of(informer.resource)], informer.store
        old = store.get(key)
        try:
            if kind == "DELETED":
                if store.pop(key, None) is not None:
                    handler.on_delete(old)
            elif old is None or kind == "ADDED":
                store[key] = obj
                handler.on_add(obj)
            else:
                store[key] = obj
                handler.on_update(old, obj)
        except Exception:
            log.exception("event handler failed", extra={"resource": informer.resource.plural, "object": key})
