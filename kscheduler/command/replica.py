"""Runs one replica of the scheduler: with its Lease, its HTTPS endpoint, and the signals that stop it.

All replicas watch the cluster; only the one that holds the Lease schedules. It first confirms that its pods and nodes
are up to date, and leaves the Lease to another replica if it cannot. If it loses the Lease, it stops binding at once
and exits with an error. On SIGTERM it makes no new decisions, waits for the bindings in flight, releases the Lease so
that a standby can take it, and sends the remaining Events. A second signal ends it at once, as it ends kube-scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from kscheduler.cache.comparer import compare_nodes, compare_pods, dump_nodes
from kscheduler.client.concurrency import cancel_and_wait, run_together
from kscheduler.client.leaderelection import LeaderElector
from kscheduler.client.protocol import nothing
from kscheduler.clock import Clock
from kscheduler.command.stop_signals import SIGNALS
from kscheduler.counted import counted
from kscheduler.errors import APIError, InternalError, StoppedAtOnce
from kscheduler.observability.measurements import Measurements
from kscheduler.scheduler import Scheduler
from kscheduler.serving.health import Health, LeaderWatchdog

log = logging.getLogger(__name__)

EVENTS_DRAIN_S = 5.0  # when stopping, time limit for sending the queued Events
# The longest wait after the last binding's answer until our own watch shows it, as a standby's then does, too.
SETTLE_S = 0.25
SETTLE_PERIOD_S = 0.005
# Each sample wakes an idle process. A percentile over minutes does not need more of them.
LAG_PERIOD_S = 1.0
RECONNECT_PERIOD_S = 0.02
# A watch that failed once is opened again within a second, and without events nothing shows earlier that it works.
RECONNECT_MOST_S = 1.0
# Time for requesting the first lists; then the endpoint's libraries are imported while the apiserver answers.
HEAD_START_S = 0.01

WhileListing = Callable[[Callable[[], bool]], Coroutine[Any, Any, None]]


class Endpoint(Protocol):
    """The HTTP servers of a replica: for probes, metrics, users, and the apiserver's webhook calls."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Replica:
    """Runs a scheduler from start to stop. It uses leader election only if `elect_with` was called."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        clock: Clock,
        make_server: Callable[[], Endpoint] | None,
        delay_cache_until_active: bool = False,
        while_listing: WhileListing | None = None,
        end_at_next_signal: Callable[[], None] = nothing,
    ) -> None:
        """Create a replica; `run` starts it.

        `make_server` builds the endpoint and is called once the first lists are requested; None: no endpoint.
        `while_listing` runs concurrently with the first lists; the function passed to it returns True once they are
        complete. `end_at_next_signal` is called after a signal to stop, when the replica no longer handles such
        signals itself, so that the next one ends the process at once.
        """
        self._scheduler = scheduler
        self._clock = clock
        self._make_server = make_server
        self._server: Endpoint | None = None
        self._delay_cache = delay_cache_until_active
        self._while_listing = while_listing
        self._end_at_next_signal = end_at_next_signal
        self._elector: LeaderElector | None = None
        self._active = asyncio.Event()  # this replica may bind
        self._stop = asyncio.Event()  # a signal to stop came
        self._stop_at_once = asyncio.Event()  # another one did

    def elect_with(self, make: Callable[..., LeaderElector]) -> LeaderElector:
        """Use leader election: schedule and write only while elected.

        `make` builds the elector; its callbacks are passed to it by keyword.
        """
        if self._delay_cache:  # lists made after the election are new enough
            elector = make(on_started=self._active.set)
        else:
            elector = make(
                on_started=self._active.set,
                may_try=lambda: self._scheduler.seems_current,
                confirm=self._confirm,
                seen=self._scheduler.seen,
            )
        self._elector = elector
        self._scheduler.permission.depend_on(elector)
        return elector

    # --- health ---

    def add_checks(self, health: Health, lease_name: str, lease_duration_s: float) -> None:
        """Add kube-scheduler's checks to /healthz, /livez and /readyz: livez ignores leadership.

        Readyz needs synced informers.
        """
        health.add("readyz", "shutdown", lambda: "shutting down" if self._stop.is_set() else None)
        health.add("readyz", "sched-handler-sync", self._unsynced)
        elector = self._elector
        if elector is not None:
            watchdog = LeaderWatchdog(
                self._clock,
                lease_name,
                lease_duration_s,
                lambda: elector.last_renew if self._active.is_set() else None,
            )
            health.add("healthz", "leaderElection", watchdog)
            health.add("readyz", "leaderElection", watchdog)

    def _unsynced(self) -> str | None:
        if self._delay_cache and not self._active.is_set():
            return None
        for informer in self._scheduler.informers:
            if not informer.synced.is_set():
                return f"{informer.resource.plural} are not listed yet: {informer.last_error or 'in progress'}"
        return None

    # --- life ---

    async def run(self) -> None:
        """Run until a signal to stop comes; raise the error if any part fails.

        Raises StoppedAtOnce if a second signal comes while it stops.
        """
        self._handle_signals()
        tasks: dict[str, asyncio.Future[Any]] = {"observe": asyncio.ensure_future(self._observe())}
        try:
            # Before anything is written, so that nothing has to be undone if the endpoint cannot listen.
            await self._start_server()
            tasks |= {
                name: asyncio.ensure_future(work)
                for name, work in (
                    ("schedule", self._schedule()),
                    ("lead", self._lead()),
                    ("lag", measure_lag(self._clock, self._scheduler.measurements)),
                    ("stop", self._stop.wait()),
                )
            }
            await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            if tasks["stop"].done() and not tasks["lead"].done():
                await self._end_unless_hurried(tasks["schedule"], tasks["lead"])
            for name, task in tasks.items():
                if name != "stop" and task.done() and not task.cancelled():
                    task.result()
            if not self._stop.is_set():
                raise InternalError("a task that runs for ever has ended")
        finally:
            if self._stop.is_set():
                self._leave_signals()
            await cancel_and_wait(*tasks.values())
            if self._server is not None:
                await self._server.stop()

    async def _start_server(self) -> None:
        if self._make_server is not None:
            await asyncio.sleep(HEAD_START_S)
            self._server = self._make_server()
            await self._server.start()

    async def _observe(self) -> None:
        if self._delay_cache:
            await self._active.wait()
        if self._while_listing is None:
            await self._scheduler.observe()
        else:
            await run_together(self._scheduler.observe(), self._while_listing(lambda: self._scheduler.is_synced))

    async def _lead(self) -> None:
        if self._elector is None:
            self._active.set()
            await asyncio.Event().wait()
        else:
            if not self._delay_cache:
                await self._wait_for_lists()
            await self._elector.run()

    async def _wait_for_lists(self) -> None:
        """Wait until all kinds have been listed once, or a signal to stop arrives."""
        waiters = [asyncio.ensure_future(wait) for wait in (self._scheduler.wait_for_lists(), self._stop.wait())]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(*waiters)

    async def _schedule(self) -> None:
        """Wait until this replica is the leader and its informers have synced, then schedule pods."""
        await self._active.wait()
        await self._scheduler.wait_for_sync()
        if self._elector is None or self._delay_cache:
            await self._confirm_broken()
        # Other kinds may be outdated as in kube-scheduler, which only waits for their lists. A watch of theirs that was
        # refused a moment ago, as by an apiserver that just started, gets the time to be opened again.
        until = self._clock.now() + RECONNECT_MOST_S
        while self._clock.now() < until:
            if not any(_may_work_soon(informer.last_error) for informer in self._scheduler.informers):
                break
            await asyncio.sleep(RECONNECT_PERIOD_S)
        await self._scheduler.schedule()

    async def _confirm(self) -> None:
        """Return once pods and nodes are as far as the last leader saw them, or, if it left nothing, up to date."""
        assert self._elector is not None
        await self._scheduler.confirm_room(self._elector.predecessor_saw)

    async def _confirm_broken(self) -> None:
        """Wait until pods and nodes are known to be up to date.

        Returns at once unless a watch failed, else retries for ever.
        """
        while not self._scheduler.seems_current:
            try:
                await self._scheduler.confirm_room()
                return
            except APIError as error:
                log.warning("current pods and nodes not known yet", extra={"err": str(error)})
                await asyncio.sleep(1.0)

    async def _end_unless_hurried(self, schedule: asyncio.Future[Any], lead: asyncio.Future[Any]) -> None:
        ending, hurried = (
            asyncio.ensure_future(self._end(schedule, lead)),
            asyncio.ensure_future(self._stop_at_once.wait()),
        )
        try:
            await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                left = len(self._scheduler.bindings)
                raise StoppedAtOnce(f"stopped at once by a second signal, with {counted(left, 'binding')} under way")
            ending.result()
        finally:
            await cancel_and_wait(ending, hurried)

    async def _end(self, schedule: asyncio.Future[Any], lead: asyncio.Future[Any]) -> None:
        """Stop in order: no decisions, wait for bindings and to see them, release the Lease, send the queued Events."""
        log.info("stopping", extra={"binds": len(self._scheduler.bindings)})
        was_scheduling = self._active.is_set() and self._scheduler.is_synced
        if was_scheduling:
            self._scheduler.drain()
            await asyncio.wait({schedule, lead}, return_when=asyncio.FIRST_COMPLETED)
        else:
            await cancel_and_wait(schedule)
        if self._elector is not None and not lead.done() and self._scheduler.undecided_bindings:
            # The next leader is to see what becomes of them before it fills the same nodes.
            log.warning("the lease is not released, but left to expire: the outcome of bindings is not known")
            await cancel_and_wait(lead)
        elif self._elector is not None and not lead.done():
            if was_scheduling:
                await self._settle()
            await self._elector.stop()
            await asyncio.wait({lead})
        if was_scheduling:  # after the release, so that the next leader need not wait for Events
            await self._scheduler.recorder.drain(EVENTS_DRAIN_S)

    async def _settle(self) -> None:
        """Wait until the watch has shown the bindings that this replica has written, SETTLE_S at most."""
        until = self._clock.now() + SETTLE_S
        while self._clock.now() < until:
            if not self._scheduler.has_unseen_bindings:
                break
            await asyncio.sleep(SETTLE_PERIOD_S)

    # --- signals ---

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_stop_signal)
        loop.add_signal_handler(signal.SIGUSR2, self.dump)

    def _on_stop_signal(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            return
        self._stop_at_once.set()
        self._leave_signals()  # should even that not end it, a third one does

    def _leave_signals(self) -> None:
        """Let the next signal to stop end the process at once."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        self._end_at_next_signal()

    def dump(self) -> None:
        """Log the contents of cache and queue, and how the cache differs from the informers."""
        scheduler = self._scheduler
        for kind, difference in (
            ("nodes", compare_nodes(scheduler.cache, scheduler.nodes.store.values())),
            ("pods", compare_pods(scheduler.cache, scheduler.pods.store.values())),
        ):
            level = logging.WARNING if difference else logging.INFO
            fields = {"kind": kind, "missing": difference.missing, "redundant": difference.redundant}
            log.log(level, "cache comparison", extra=fields)
        log.info("dump of cached nodes", extra={"nodes": list(dump_nodes(scheduler.cache))})
        counts = scheduler.queue.counts()
        waiting = counts.unschedulable + counts.gated
        kind = "Entities" if scheduler.release.queue_counts_entities else "Pods"
        summary = f"activeQ:{counts.active}; backoffQ:{counts.backoff}; unschedulable{kind}:{waiting}"
        pending = [queued.pod_info.key for queued in scheduler.queue.pending_pods()]
        log.info("dump of scheduling queue", extra={"summary": summary, "pods": pending})
        if scheduler.live_metrics is not None:
            log.info("dump of live metrics", extra=scheduler.live_metrics.describe())


def _may_work_soon(error: APIError | None) -> bool:
    """Whether a watch that failed so may be opened again in a moment: not if the kind is unknown, or not allowed."""
    return error is not None and error.status not in (403, 404)


async def measure_lag(clock: Clock, measurements: Measurements) -> None:
    """Record once a second how late the event loop runs a timer. Never returns."""
    while True:
        due = clock.now() + LAG_PERIOD_S
        await asyncio.sleep(LAG_PERIOD_S)
        measurements.loop_lag(max(clock.now() - due, 0.0))
