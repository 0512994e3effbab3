"""Elects the one replica that acts: the holder of a `coordination.k8s.io` Lease, by client-go's rules.

A candidate takes a Lease that does not exist, has no holder, or has not changed for the duration written in it. That
duration is measured on the candidate's own monotonic clock from when it saw the last change; clocks of different
machines are never compared. The holder renews the Lease every retry period. If no renewal succeeds within the renew
deadline, it stops leading before any other replica may start. A kube-scheduler on the same Lease is excluded like any
other candidate.

Beyond client-go, a candidate checks whether it may lead before it takes the Lease, and confirms that afterwards. If
that fails, it releases the Lease for another replica. What a leader has seen of the cluster it leaves in the Lease that
it releases, so that the next one need not ask the apiserver. A candidate also watches the Lease, so that a release
wakes it at once, and it tries at the moment when the Lease expires instead of at its next poll. Polling continues in
case the watch does not work.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kscheduler.api.objects import Lease, LeaseSpec, ObjectMeta
from kscheduler.client.concurrency import cancel_and_wait, wait_event, within
from kscheduler.client.handover import Seen, handover_of, with_handover
from kscheduler.client.informer import WATCH_TIMEOUT_S, is_older
from kscheduler.client.kinds import LEASES
from kscheduler.client.outages import MOST_CAUSES
from kscheduler.client.protocol import Client, EventType, always, nothing
from kscheduler.client.retry_pauses import Backoff
from kscheduler.client.times import micro_time
from kscheduler.clock import Clock
from kscheduler.errors import APIError, ConfigError, Conflict, Gone, KSchedulerError, NotFound
from kscheduler.input.int32 import MAX_INT32

log = logging.getLogger(__name__)

JITTER_FACTOR = 1.2  # client-go's: tries to acquire are 1 to 2.2 retry periods apart
RELEASED_DURATION_S = 1  # what client-go writes as the duration of a released Lease
WATCH_PAUSE_S = 30.0  # at most, after the watch of the Lease has failed
UNANSWERED_PAUSE_S = 1.0  # after a try to acquire that failed for want of a good answer
ENDED_PERIOD_S = 1.0  # between two questions whether the holder has ended, where that can be known
CONFIRM_MOST_S = 6.0  # a list of some pages, or a watch that shows in 3 s that it works


class LeadershipLost(KSchedulerError):
    """The Lease could not be renewed in time, or another replica holds it, so that this one must not act any more."""


@dataclass(frozen=True, slots=True)
class ElectionConfig:
    """The Lease's name, our identity, and the three durations, with kube-scheduler's defaults."""

    identity: str
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.identity:
            raise ConfigError("leader election: identity: not set")
        if self.lease_duration_s <= self.renew_deadline_s:
            raise ConfigError(
                f"leaderElection.leaseDuration: {self.lease_duration_s:g}s: must be greater than renewDeadline, "
                f"which is {self.renew_deadline_s:g}s"
            )
        if self.retry_period_s <= 0 or self.renew_deadline_s <= JITTER_FACTOR * self.retry_period_s:
            raise ConfigError(
                f"leaderElection.renewDeadline: {self.renew_deadline_s:g}s: must be greater than {JITTER_FACTOR} times "
                f"retryPeriod, which is {self.retry_period_s:g}s"
            )


async def _at_once() -> None:
    pass


def _says_nothing() -> None:
    return None


class LeaderElector:
    """Takes part in leader election for one Lease. Run `run` as a task, and call `stop` to release the Lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        config: ElectionConfig,
        *,
        on_started: Callable[[], None] = nothing,
        may_try: Callable[[], bool] = always,
        confirm: Callable[[], Coroutine[Any, Any, None]] = _at_once,
        has_ended: Callable[[str], Coroutine[Any, Any, bool]] | None = None,
        seen: Callable[[], Seen | None] = _says_nothing,
    ) -> None:
        """Prepare to take part; `run` starts it. `on_started` is called when this replica begins to lead.

        It must not block. Leading ends before `run` returns or raises.

        `may_try` returns whether to take another replica's Lease now. `confirm` is awaited while the Lease is held;
        leading begins when it returns, and does not if it raises APIError. `has_ended` returns True for the identity of
        a process that has provably ended, whose Lease need not expire first; with None every Lease must expire. `seen`
        returns what is left for the next leader when this one releases the Lease.
        """
        self._client = client
        self._clock = clock
        self._rng = rng
        self._config = config
        self._on_started = on_started
        self._observed: Lease | None = None  # as last read or written
        self._observed_at = float("-inf")  # monotonic time at which its spec was first seen
        self._reported = ""  # the leader last logged
        self._leading = False
        self._valid_until = float("-inf")  # no other candidate may start before this monotonic time
        self._wake = asyncio.Event()  # the Lease changed so that trying now is worth while
        self._stopping = asyncio.Event()
        self._failed_tries = 0  # one after the other, without a good answer
        self._complaints: set[tuple[str, str]] = set()  # (message, cause) that were logged since the last good answer
        self._declined = False  # the last time there was a Lease to take
        self._may_try = may_try
        self._confirm = confirm
        self._has_ended = has_ended
        self._seen = seen
        self.predecessor_saw: Seen | None = None  # as it left it when it released the Lease; None: it left nothing
        self.last_renew = clock.now()  # monotonic time of the last success, or of our start

    # --- what others ask ----------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """True while this replica may act.

        False as soon as its Lease may have expired, even if `run` has not noticed because the process was suspended.
        """
        return self._leading and self._clock.now() < self._valid_until

    @property
    def leader_identity(self) -> str:
        """The identity of the holder that was last seen, or "" for none."""
        return self._spec.holder_identity or ""

    # --- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Acquire the Lease, lead, and return after `stop`.

        Raises LeadershipLost. If cancelled, it leaves the Lease as it is.
        """
        try:
            if not await self._acquire():
                return
            log.info("became leader", extra=self._fields())
            self._on_started()
            try:
                await self._renew()
            finally:
                self._leading = False
            await self._release(self._seen())
        finally:
            self._leading = False

    async def stop(self) -> None:
        """Make `run` release the Lease, if held, and return. Call this when nothing acts as leader any more."""
        self._stopping.set()
        self._wake.set()

    async def _acquire(self) -> bool:
        """Try until this replica holds the Lease (True) or is stopped (False)."""
        log.info("trying to become leader", extra=self._fields())
        watcher = asyncio.ensure_future(self._watch_lease())
        try:
            while not self._stopping.is_set():
                self._wake.clear()
                if await self._try_once(self._clock.now() + self._try_limit_s()):
                    if await self._confirmed():
                        return True
                    self._leading = False
                    await self._release(self.predecessor_saw)  # nobody has led since
                    self._wake.clear()  # our own release: let others go first
                await wait_event(self._wake, self._pause_s())
        finally:
            await cancel_and_wait(watcher)
        return False

    def _try_limit_s(self) -> float:
        """Return the timeout in seconds of one try to acquire.

        The first is short: it must not outlast the Lease by far.
        """
        return min(self._config.renew_deadline_s, self._config.retry_period_s * (1 + self._failed_tries))

    async def _confirmed(self) -> bool:
        """Return True if `confirm` returns in time while this replica still holds the Lease; it is renewed
        meanwhile.
        """
        config = self._config
        until = self._clock.now() + CONFIRM_MOST_S
        confirming = asyncio.ensure_future(self._confirm())
        reason = ""
        try:
            while not reason:
                left_s = min(config.retry_period_s, until - self._clock.now())
                await asyncio.wait([confirming], timeout=max(0.0, left_s))
                if confirming.done():
                    confirming.result()
                    return self.is_leader
                if self._stopping.is_set() or self._clock.now() >= until:
                    reason = f"not confirmed within {CONFIRM_MOST_S:g} s"
                elif not await self._try_once(self._clock.now() + config.retry_period_s) and not self.is_leader:
                    reason = "lost meanwhile"
        except APIError as error:
            reason = str(error)
        finally:
            await cancel_and_wait(confirming)
        extra = {**self._fields(), "err": reason}
        log.warning("not leading: the current state of the cluster is not known", extra=extra)
        return False

    def _pause_s(self) -> float:
        """Return a retry period with jitter in seconds, or less if the holder's Lease expires before."""
        period = self._config.retry_period_s
        pause = period * (1.0 + JITTER_FACTOR * self._rng.random())
        if self._spec.holder_identity:
            # A little later than the end, and not all candidates at one instant.
            until_expiry = self._expiry() - self._clock.now() + self._rng.uniform(0.0, 0.05) * period
            if until_expiry > 0:
                pause = min(pause, until_expiry)
        if self._has_ended is not None:
            pause = min(pause, ENDED_PERIOD_S)
        if self._failed_tries or self._declined:  # something has to change first, and then somebody should lead at once
            pause = min(pause, UNANSWERED_PAUSE_S * self._rng.uniform(0.5, 1.0))
        return pause

    async def _renew(self) -> None:
        """Renew the Lease every retry period until stopped. Raises LeadershipLost when the renew deadline passes."""
        period = self._config.retry_period_s
        while not await wait_event(self._stopping, period):
            deadline = self._clock.now() + self._config.renew_deadline_s
            while not await self._try_once(deadline):
                left_s = deadline - self._clock.now()
                if left_s <= 0 or self._held_by_other():
                    self._leading = False
                    log.error("lost the lease", extra=self._fields())
                    raise LeadershipLost(self._lost_message())
                if await wait_event(self._stopping, min(period, left_s)):
                    return

    def _held_by_other(self) -> bool:
        """Return True if another replica has taken the Lease; this one must then stop before its renew deadline."""
        return self._spec.holder_identity not in (self._config.identity, "", None)

    def _lost_message(self) -> str:
        config = self._config
        what = f"lease {config.namespace}/{config.name}"
        if self._held_by_other():
            return f"{what}: taken by {self.leader_identity}"
        return f"{what}: not renewed within {config.renew_deadline_s:g} s"

    # --- one attempt --------------------------------------------------------------------------------------------

    async def _try_once(self, deadline: float) -> bool:
        """Try to acquire or renew until `deadline`. Returns False on any failure."""
        try:
            held = await within(max(0.0, deadline - self._clock.now()), self._acquire_or_renew())
            self._works_again()
            self._failed_tries = 0
        except TimeoutError:
            self._failed_tries += 1
            self._complain("no answer to a request for the lease in time")
            held = False
        except APIError as error:
            if isinstance(error, Conflict) and not self._leading:
                log.debug("another candidate wrote the lease first", extra={**self._fields(), "err": str(error)})
            else:
                self._failed_tries += 0 if isinstance(error, Conflict) else 1
                self._complain("lease could not be read or written", error.cause, err=str(error))
            held = False
        self._report_leader()
        return held

    def _complain(self, message: str, cause: str = "", **further: str) -> None:
        """Log a failure, as a warning only if it is the first of its cause since the last good answer.

        A candidate tries every second, and an outage may last for hours.
        """
        complaint = message, cause
        is_news = complaint not in self._complaints and len(self._complaints) < MOST_CAUSES
        if is_news:
            self._complaints.add(complaint)
        log.log(logging.WARNING if is_news else logging.DEBUG, message, extra={**self._fields(), **further})

    def _works_again(self) -> None:
        if self._complaints:
            self._complaints.clear()
            log.info("the lease is read and written again", extra={**self._fields(), "failed": self._failed_tries})

    async def _acquire_or_renew(self) -> bool:
        """Acquire or renew, and return False if another replica holds the Lease.

        Raises APIError when the apiserver cannot tell.
        """
        start = self._clock.now()
        # 1. The holder writes without reading: nobody else may have written.
        if self._is_holder() and start < self._expiry() and await self._renew_fast(start):
            return True
        # 2. Read, or create.
        try:
            lease = await self._client.get_lease(self._config.namespace, self._config.name)
        except NotFound:
            if not self._may_take():
                return False
            self.predecessor_saw = None
            created = await self._client.create_lease(self._new_lease())
            self._won(created, start)
            return True
        # 3. A changed spec is a sign of life; one that stays the same ages.
        self._observe(lease)
        if self._leading and self._held_by_other():
            return False
        # 4. Respect a holder whose time has not run out, and whose end is not proved.
        holder = lease.spec.holder_identity
        has_time = bool(holder) and not self._is_holder() and self._clock.now() < self._expiry()
        if has_time and not (self._has_ended is not None and await self._has_ended(holder or "")):
            self._declined = False
            return False
        if not self._is_holder() and not self._may_take():
            return False
        # 5. Write, on condition that it is still what was read.
        if not self._is_holder():
            self.predecessor_saw = handover_of(lease)
        updated = await self._client.update_lease(self._claim(lease))
        self._won(updated, start)
        return True

    def _may_take(self) -> bool:
        may = self._may_try()
        if not may and not self._declined:
            log.warning(
                "not taking a free lease: the cached state of the cluster may be outdated", extra=self._fields()
            )
        self._declined = not may
        return may

    async def _renew_fast(self, start: float) -> bool:
        assert self._observed is not None
        try:
            updated = await self._client.update_lease(self._claim(self._observed))
        except APIError as error:
            log.debug("lease not renewed without reading it first", extra={**self._fields(), "err": str(error)})
            return False
        self._won(updated, start)
        return True

    def _claim(self, lease: Lease) -> Lease:
        """Return the Lease with this replica as its holder; a change of holder increments leaseTransitions."""
        config, old = self._config, lease.spec
        now = micro_time(self._clock.wall())
        renews = old.holder_identity == config.identity
        spec = replace(
            old,
            holder_identity=config.identity,
            lease_duration_seconds=_whole_seconds(config.lease_duration_s),
            acquire_time=old.acquire_time if renews else now,
            renew_time=now,
            # An apiserver refuses to read, or to store, a Lease whose numbers are wider.
            lease_transitions=min((old.lease_transitions or 0) + (0 if renews else 1), MAX_INT32),
        )
        return with_handover(Lease(metadata=lease.metadata, spec=spec), None)

    def _new_lease(self) -> Lease:
        config, now = self._config, micro_time(self._clock.wall())
        spec = LeaseSpec(config.identity, _whole_seconds(config.lease_duration_s), now, now, 0)
        return Lease(metadata=ObjectMeta(name=config.name, namespace=config.namespace), spec=spec)

    def _won(self, lease: Lease, start: float) -> None:
        """Record a Lease that the apiserver accepted. Other candidates measure its duration from later than `start`."""
        self._observed = lease
        self._observed_at = self._clock.now()
        self._valid_until = start + min(self._config.lease_duration_s, lease.spec.lease_duration_seconds or 0)
        self.last_renew = self._clock.now()
        self._leading = True

    # --- what is observed ---------------------------------------------------------------------------------------

    @property
    def _spec(self) -> LeaseSpec:
        return self._observed.spec if self._observed is not None else LeaseSpec()

    def _is_holder(self) -> bool:
        return self._spec.holder_identity == self._config.identity

    def _expiry(self) -> float:
        """Return the time of our clock at which the Lease last seen expires."""
        return self._observed_at + (self._spec.lease_duration_seconds or 0)

    def _observe(self, lease: Lease) -> None:
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = self._clock.now()
        self._observed = lease

    def _report_leader(self) -> None:
        leader = self.leader_identity
        if leader != self._reported:
            self._reported = leader
            if leader:
                log.info("new leader observed", extra=self._fields())

    def _fields(self) -> dict[str, object]:
        config = self._config
        return {
            "lease": f"{config.namespace}/{config.name}",
            "identity": config.identity,
            "holder": self.leader_identity,
        }

    # --- release ------------------------------------------------------------------------------------------------

    async def _release(self, seen: Seen | None) -> None:
        """Try once to release the Lease within a limited time, so that a candidate need not wait until it expires.

        `seen` is left for the next leader.
        """
        try:
            await within(self._config.renew_deadline_s, self._release_now(seen))
        except (TimeoutError, APIError) as error:
            log.warning("lease not released", extra={**self._fields(), "err": str(error) or "no answer in time"})
        else:
            log.info("lease released", extra=self._fields())

    async def _release_now(self, seen: Seen | None) -> None:
        lease = await self._client.get_lease(self._config.namespace, self._config.name)
        self._observe(lease)
        if not self._is_holder():
            return
        now = micro_time(self._clock.wall())
        spec = replace(
            lease.spec,
            holder_identity="",
            lease_duration_seconds=RELEASED_DURATION_S,
            acquire_time=now,
            renew_time=now,
        )
        released = with_handover(Lease(metadata=lease.metadata, spec=spec), seen)
        self._observe(await self._client.update_lease(released))

    # --- waking up ----------------------------------------------------------------------------------------------

    async def _watch_lease(self) -> None:
        """Watch the Lease while this replica is a candidate, and wake `_acquire` when it is released.

        Errors are ignored.
        """
        backoff = Backoff(self._rng, initial_s=min(self._config.retry_period_s, WATCH_PAUSE_S), maximum_s=WATCH_PAUSE_S)
        resource = LEASES.within(self._config.namespace)
        selector = f"metadata.name={self._config.name}"
        version = ""
        while True:
            try:
                if not version:
                    page = await self._client.list_page(resource, field_selector=selector)
                    version = page.resource_version
                    for lease in page.items:  # it may have been released before the watch begins
                        self._heard(EventType.ADDED, lease)
                timeout_s = self._rng.uniform(*WATCH_TIMEOUT_S)
                async for events in self._client.watch(
                    resource, resource_version=version, field_selector=selector, timeout_s=timeout_s
                ):
                    backoff.reset()
                    for event in events:
                        version = event.resource_version or version
                        self._heard(event.type, event.object)
                await asyncio.sleep(self._rng.random())
            except APIError as error:
                if isinstance(error, Gone):
                    version = ""
                log.debug("lease watch failed; polling goes on", extra={**self._fields(), "err": str(error)})
                await asyncio.sleep(backoff.next_s(error.retry_after_s))

    def _heard(self, event_type: EventType, lease: Lease | None) -> None:
        if lease is None or lease.metadata.name != self._config.name:
            return
        if lease.metadata.namespace != self._config.namespace:
            return
        if event_type is EventType.DELETED:
            self._wake.set()
            return
        if self._leading:
            return
        # What a watch that was opened again repeats is no sign of life. (A read is current, whatever its version:
        # after a restore from a backup versions begin lower.)
        if self._observed is not None and _was_before(lease.metadata, self._observed.metadata):
            return
        self._observe(lease)
        self._report_leader()
        if not lease.spec.holder_identity:
            self._wake.set()


def _was_before(version: ObjectMeta, known: ObjectMeta) -> bool:
    """Return True if `version` is an older version of the Lease than `known`; a recreated Lease is another object."""
    return version.uid == known.uid and is_older(version.resource_version, known.resource_version)


def _whole_seconds(seconds: float) -> int:
    """Round as client-go does, because the Lease holds whole seconds: at least 1, at most 68 years."""
    return max(1, min(int(seconds), MAX_INT32))
