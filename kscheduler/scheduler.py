"""The scheduler: starts, drains and stops its parts, and decides pods in turns. `assembly.py` builds the parts.

Two coroutines run side by side. `observe` keeps cache and queue up to date with the watch, from the start, also on a
standby replica. `schedule` takes pods from the queue and places them; the caller runs it only while this replica leads
and so may bind. Cancelling it stops binding at once.
"""

from __future__ import annotations

import asyncio
import logging

from kscheduler.assembly import Options, SchedulerParts
from kscheduler.client.concurrency import run_together
from kscheduler.client.handover import Seen
from kscheduler.framework.events import ASSIGNED_POD_DELETE, GUEST_REPLACED

__all__ = ["Options", "Scheduler"]

log = logging.getLogger(__name__)

# Limits of one slice of decisions, after which the event loop runs other work. The time keeps watch events and bindings
# moving; the count limits a slice where time stands still, as in a simulation.
SLICE_S = 0.005
SLICE_PODS = 256
EXPIRY_PERIOD_S = 1.0
NOT_LEADING_S = 0.1  # until a leader whose Lease may have expired is asked again whether it leads
DRAIN_S = 10.0  # in-flight binds are given this long when stopping


class Scheduler(SchedulerParts):
    """A running scheduler, with all its parts."""

    _draining = False
    _next_expiry = 0.0
    undecided_bindings = 0  # when it had stopped: the apiserver may still carry them out

    async def observe(self) -> None:
        """Keep cache and queue up to date with the apiserver, and write Events and conditions. Runs until cancelled."""
        lanes = [self.recorder.run(), self.statuses.run(), self._refused_pods.run()]
        if self._quota_statuses is not None:
            lanes.append(self._quota_statuses.run())
        if self._queue_statuses is not None:
            lanes.append(self._queue_statuses.run())
        if self._divisions is not None:
            lanes.append(self._divisions.run())
        if self._annotations is not None:
            lanes.append(self._annotations.run())
        if self._guests is not None and self._guests.guests:
            lanes.append(self._guests.watch(self))
        if self.gangs is not None:
            lanes.append(self.gangs.run())
        if self.live_metrics is not None:
            lanes.append(self.live_metrics.run(self.nodes.synced))
        await run_together(*(informer.run() for informer in self.informers), *lanes)

    def looked_for_guest(self, plugin: str, result: str, *, is_replaced: bool) -> None:
        """Record a check for a new version of a guest (wasm plugin).

        If it was replaced, waiting pods are tried again.
        """
        self.measurements.looked_for_guest(plugin, result)
        if is_replaced:
            self._batch.forget()
            self.queue.move_all_to_active_or_backoff(GUEST_REPLACED, None, None, self._clock.now())
            self._work.set()

    async def wait_for_sync(self) -> None:
        """Wait until the cache has been filled, and each source of metrics has been polled once or is overdue."""
        await self.wait_for_lists()
        if self.live_metrics is not None:
            await self.live_metrics.wait_for_sync()

    async def wait_for_lists(self) -> None:
        """Wait until the cache has been filled from the first list of every kind of object."""
        for informer in self.informers:
            await informer.synced.wait()

    @property
    def seems_current(self) -> bool:
        """False while the pods or nodes in the cache may be outdated, as far as that is known without a request."""
        return self.is_synced and self.pods.seems_current and self.nodes.seems_current

    async def confirm_room(self, seen: Seen | None = None) -> None:
        """Return once the cache holds all pods and nodes that the apiserver had accepted when this was called.

        With `seen`, it need only hold what that names, such as what the last leader had seen. Waits for as long as that
        takes; raises APIError if the apiserver cannot report its current state.
        """
        if seen is not None:
            await run_together(self.nodes.reach(seen.nodes), self.pods.reach(seen.pods))
        else:
            await run_together(self.nodes.confirm(), self.pods.confirm())

    @property
    def has_unseen_bindings(self) -> bool:
        """True while the watch has yet to show pods that were bound, or are being bound, by this scheduler."""
        return self.cache.sizes()["assumed_pods"] > 0

    def seen(self) -> Seen | None:
        """Return what this scheduler has seen; None if that does not include all of its bindings."""
        if self.has_unseen_bindings or not self.seems_current:
            return None
        return Seen(pods=self.pods.changed_version, nodes=self.nodes.changed_version)

    async def schedule(self) -> None:
        """Place pods until drained or cancelled; cancelling also cancels the bindings under way."""
        await self.wait_for_sync()
        self._recover_events()
        log.info("scheduling starts", extra={**self.cache.sizes(), "pending": self.queue.counts().active})
        try:
            while not self._draining:
                await self._work.run()
                await self._batch.get_answers()
            await self._cancel_lanes()
            _, preemptions = await asyncio.gather(self.bindings.drain(DRAIN_S), self.preemptions.drain(DRAIN_S))
            claims = await self.claim_writes.drain(DRAIN_S)  # bindings that failed meanwhile have begun some of them
            binds = len(self.bindings)
            if binds or preemptions or claims:
                self.undecided_bindings = max(0, binds - self._unwritten)
                left = {"binds": binds, "preemptions": preemptions, "claims": claims}
                log.warning("stopping in the middle of work", extra=left)
        finally:
            await self._cancel_lanes()
            await asyncio.gather(self.bindings.cancel(), self.preemptions.cancel(), self.claim_writes.cancel())
            if self.extenders is not None:
                await self.extenders.close()

    async def _cancel_lanes(self) -> None:
        if self.lanes is not None:
            await self.lanes.cancel()

    def _recover_events(self) -> None:
        """Record the Scheduled Events that a killed predecessor may have left unwritten."""
        for uid, key, bound_s in self._past_bindings.take(self.recorder.record_past_binding):
            pod = self._known_pods.get(key)
            if pod is not None and pod.metadata.uid == uid:
                self.recorder.record_past_binding(pod, bound_s)

    def drain(self) -> None:
        """Take no more pods from the queue; `schedule` then returns when the bindings under way have ended."""
        self._draining = True
        self._work.set()

    def _decide(self) -> float | None:
        """Take one turn of decisions. Returns the seconds until the next one, None if only something new asks for it.

        Ends the turns when the scheduler drains, and when answers of plugins must be awaited first.
        """
        while not self._draining:
            elected = self.permission.elected
            if elected is not None and not elected.is_leader:  # it was suspended, and learns soon if it still leads
                return NOT_LEADING_S
            if self._schedule_slice():
                if self._batch.is_waiting:
                    break
                return 0.0  # others have their turn first
            if not self._work.is_set:
                has_deadline = self.queue.uids or self._timers.due or self._assumed_ttl_s > 0
                return self._pause_s() if has_deadline else None
        self._work.end()
        return None

    def _schedule_slice(self) -> bool:
        """Decide pods for a few milliseconds. Returns False when nothing can be decided now."""
        now = self._clock.now()
        self._work.is_set = False
        self.queue.flush(now)
        if self._timers.due and (due := self._timers.pop_due(now)):
            self.queue.activate(due, now)
        if self._assumed_ttl_s > 0 and now >= self._next_expiry:
            self._expire(now)
        end = now + SLICE_S
        if self.lanes is not None and self.bindings.has_room:
            self.lanes.start_next(now)
        left = SLICE_PODS
        while left > 0 and now < end:
            room = self.bindings.room
            if room <= 0:
                return False
            tried = self._batch.run(now, left if left < room else room)
            if not tried:
                if self.lanes is not None:
                    self.lanes.start_next(now)  # whose pods may leave their backoff early now
                return False
            if self._batch.is_waiting:
                return True
            left -= tried
            if self.lanes is None and not self.queue.uids:
                return False
            now = self._clock.now()
        return True

    def next_retry(self) -> float | None:
        """Return when the first pod is to be tried again because a plugin asked for it, by the clock; None if none."""
        return self._timers.next_moment()

    def _expire(self, now: float) -> None:
        self._next_expiry = now + EXPIRY_PERIOD_S
        for pod in self.cache.expire(now):
            log.warning("the watch never confirmed a binding; its resources are released", extra={"pod": pod.key})
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod.pod, None, now)

    def _pause_s(self) -> float | None:
        """Return the seconds until the next deadline of a pod; None without one."""
        now = self._clock.now()
        deadline = self.queue.next_deadline(now)
        moment = self._timers.next_moment() if self._timers.due else None
        if moment is not None:
            deadline = moment if deadline is None else min(deadline, moment)
        if self._assumed_ttl_s > 0 and self.cache.sizes()["assumed_pods"]:
            deadline = self._next_expiry if deadline is None else min(deadline, self._next_expiry)
        return None if deadline is None else max(deadline - now, 0.0)
