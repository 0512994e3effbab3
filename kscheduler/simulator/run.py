"""Runs one simulation: a cluster in memory, a scheduler for it, and pods that arrive and leave, in virtual time.

    1. Create all objects that exist from the start.  2. Start the scheduler and wait for its informers to sync.
    3. Play arrivals and departures.  4. Stop when nothing can change any more.  5. Check and return the outcome.

Any scheduler that works with a client, a clock and a random source can be simulated (`SchedulerUnderTest`). Its
decisions take no virtual time; requests to the apiserver take that of `Latency`. Results are computed from the
cluster's objects.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import math
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kscheduler.api.grace_period import grace_s
from kscheduler.api.objects import Pod, PodCondition
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kinds import GROUPS, PODS
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import InternalError
from kscheduler.simulator.accounting import Accounting
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.cluster import FINISHED, HISTORY_LIMIT, Cluster, in_order_of_use
from kscheduler.simulator.cluster_client import Latency
from kscheduler.simulator.faults import Faults
from kscheduler.simulator.gang_book import GangBook, GangRuns
from kscheduler.simulator.load_history import LoadHistory
from kscheduler.simulator.metrics_server import serve_metrics
from kscheduler.simulator.object_changes import apply_change
from kscheduler.simulator.pod_claims import ClaimBook, PodClaims, awaited_claim
from kscheduler.simulator.real_load import RealLoad
from kscheduler.simulator.scenario import Arrival, Scenario
from kscheduler.simulator.start_time import begins_at
from kscheduler.simulator.usage import declare_usage
from kscheduler.simulator.virtual_time import LoopClock, VirtualTimeLoop, run_virtual
from kscheduler.simulator.volume_controller import VolumeController

T = TypeVar("T")

CHUNK = 512  # pods created at once at most: after so many the scheduler runs, even if more arrive at the same instant
# If no pod has changed for this long, the scheduler has tried all of them: its longest backoff is 10 s.
QUIET_S = 60.0
# A plugin may have a pod tried again at a later time, such as when others have run for as long as they may. Such times
# are waited for, but not for longer than this since a pod last came, got a node or left.
RETRIED_S = 7200.0
# A pod that has no reason after this long was forgotten: all unschedulable pods are retried after 5 minutes.
FORGOTTEN_S = 900.0
# Changes of each kind that are kept where no watch can break, so that none starts in the past.
SHORT_HISTORY = 1_000
QUIET_WATCH_S = 3600.0  # interval of bookmarks; long, so that months without changes cost nothing
SETTLE_S = 10.0  # time after the last placement for Events and conditions that are still being written

_GROUP_KINDS = {resource.kind: resource for resource in GROUPS}


class Ending(enum.Enum):
    """The reason why a simulation stopped."""

    ALL_PLACED = "no pod was waiting any more"
    REST_UNSCHEDULABLE = "no pod that is left can be placed"
    TIME_LIMIT = "the limit of virtual time was reached"
    FORGOTTEN = "pods were left without a word"


class SchedulerUnderTest(Protocol):
    """The methods by which a simulation uses a scheduler."""

    async def run(self) -> None:
        """Watch the cluster and schedule its pods until cancelled."""
        ...

    async def wait_for_sync(self) -> None:
        """Wait until the scheduler has listed all objects once."""
        ...

    def attempts(self) -> Mapping[str, int]:
        """Return result -> number of scheduling attempts so far; {} if the scheduler does not count them."""
        ...

    def next_retry(self) -> float | None:
        """Return when a waiting pod is to be tried again without an event, by the clock; None if that is not known."""
        ...

    def held_back_by(self, uid: str) -> str:
        """Return the out-of-tree PreEnqueue plugin, or the guest, that holds a pod back; "" if there is none."""
        ...

    def queue_of(self, pod: Pod) -> str | None:
        """Return the queue with shares that the pod waits in, "" for none; None if such queues are not kept."""
        ...


SchedulerFactory = Callable[[Client, Clock, random.Random], SchedulerUnderTest]


class Progress(Protocol):
    def update(self, *, arrived: int, bound: int, pending: int, virtual_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class RunSettings:
    seed: int = 0
    latency: Latency = field(default_factory=Latency)
    max_time_s: float | None = None
    scheduler_names: frozenset[str] = frozenset(["default-scheduler"])
    faults: Faults | None = None
    by_events: bool = True  # write bindings and Events without a task for each, see ClusterClient
    release: Release = DEFAULT_RELEASE  # of the simulated apiserver


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a simulation: equal for equal scenario, settings and scheduler."""

    accounting: Accounting
    cluster: Cluster
    ending: Ending
    attempts: dict[str, int]
    events: dict[str, int] = field(default_factory=dict)  # reason -> number of Events created
    violations: list[str] = field(default_factory=list)
    scheduler_names: frozenset[str] = frozenset()
    load: LoadHistory | None = None  # None unless pods or nodes declare what they really use
    claims: PodClaims | None = None  # None without claims for devices
    gangs: GangRuns | None = None  # None without pods of gangs
    held_back: Mapping[str, str] = field(default_factory=dict)  # pod uid -> the plugin that never let it be tried
    # The queue with shares of a pod, "" for none; returns None if such queues are not kept.
    queue_of: Callable[[Pod], str | None] = lambda pod: None


def simulate_scenario(
    scenario: Scenario, make: SchedulerFactory, settings: RunSettings, progress: Progress | None = None
) -> Outcome:
    """Run a simulation of the scenario to its end.

    `violations` of the outcome lists broken invariants: it failed if any.
    """
    return run_virtual(_Simulation(scenario, make, settings, progress).run())


class _Simulation:
    def __init__(
        self, scenario: Scenario, make: SchedulerFactory, settings: RunSettings, progress: Progress | None
    ) -> None:
        self._scenario = scenario
        self._make = make
        self._settings = settings
        self._progress = progress
        self._arrived = 0  # how many of scenario.arrivals have been created
        self._changes_made = 0  # how many of scenario.changes have been carried out
        self._next_arrival_s = self._next_change_s = math.inf  # when they come, while arrivals and changes are played
        self._runs_s: dict[str, float] = {}  # pod uid -> how long it runs once bound
        self._departures: list[tuple[float, int, str, str]] = []  # (when, number, key, uid), a heap
        self._departure_number = 0  # of the latest one: those at one instant are played in order
        self._last_change_s = 0.0  # when a pod last changed in any way, or a change of the scenario was carried out
        self._last_made_s = 0.0  # when a change of the scenario was carried out last
        self._ended: asyncio.Future[Ending]
        self._timer: asyncio.TimerHandle | None = None  # that ends the sleep
        self._is_asleep = False  # True while nothing is to be played
        self._sleeps_until_s = 0.0  # unless it is woken before
        self._started_s = 0.0  # the loop's time from which those of arrivals and changes count
        self._load: RealLoad | None = None  # created when first used
        self._gangs = GangBook(scenario.pod_groups) if scenario.pod_groups else None

    async def run(self) -> Outcome:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise InternalError(f"a simulation runs in virtual time, not on {type(loop).__name__}")
        self._loop, self._clock = loop, LoopClock(loop, begins_at(self._scenario.arrivals))
        faults = self._settings.faults or Faults(self._settings.seed)
        cluster = self._cluster = self._make_cluster(faults)
        # 1. What is there from the start.
        history = self._create_objects()
        # 2. The scheduler.
        scheduler = self._scheduler = self._make_scheduler(faults)
        running = asyncio.ensure_future(scheduler.run())
        try:
            await _unless_ended(running, scheduler.wait_for_sync())
            # 3. Arrivals, departures and changes, 4. until nothing can change any more.
            started_s = self._started_s = loop.time()
            if history is not None and self._accounting.start_s is None:
                history.begin()
            ending = await _unless_ended(running, self._play(started_s))
            if ending is Ending.TIME_LIMIT:
                self._accounting.advance()
            await asyncio.sleep(SETTLE_S)
        finally:
            await cancel_and_wait(running)
        # 5. The results.
        self._accounting.close()
        if history is not None:
            history.close(self._accounting.now_s)
        return Outcome(
            self._accounting,
            cluster,
            ending,
            dict(scheduler.attempts()),
            dict(sorted(cluster.event_counts.items())),
            self._violations(ending),
            self._settings.scheduler_names,
            history,
            self._claims.close(self._settings.release),
            None if self._gangs is None else self._gangs.close(self._accounting.start_s or 0.0, self._accounting.now_s),
            self._held_back(),
            scheduler.queue_of,
        )

    def _make_cluster(self, faults: Faults) -> Cluster:
        """Make an empty cluster, and what follows its objects."""
        settings = self._settings
        cluster = Cluster(
            self._clock,
            seed=settings.seed,
            history_limit=SHORT_HISTORY if settings.by_events and not faults.any else HISTORY_LIMIT,
            bookmark_interval_s=QUIET_WATCH_S,
            release=settings.release,
        )
        self._accounting = Accounting(cluster, settings.scheduler_names or None)
        self._volumes = VolumeController(cluster, self._loop.call_soon, follows_pods=False)
        self._claim_controller = ClaimController(cluster, self._loop.call_soon)
        self._claims = ClaimBook(cluster)
        self._pods = cluster.pods
        cluster.store(PODS).subscribe(self._pod_changed)
        return cluster

    def _create_objects(self) -> LoadHistory | None:
        """Create all objects that exist from the start. Returns what records the load, if anything declares any."""
        cluster, scenario = self._cluster, self._scenario
        for kind, group in scenario.groups:
            cluster.create_object(group, _GROUP_KINDS[kind])
        for item in in_order_of_use([*scenario.storage, *scenario.devices]):
            cluster.create_object(item)
        for other in (*scenario.policies, *scenario.quotas, *scenario.queues, *scenario.pod_groups):
            cluster.create_object(other)
        for node in scenario.nodes:
            cluster.create_node(node)
        self._make_changes(0.0)
        history = LoadHistory(self._real_load()) if self._declares_usage() else None
        self._create_existing()
        self._volumes.settle()
        self._claim_controller.settle()
        return history

    def _make_scheduler(self, faults: Faults) -> SchedulerUnderTest:
        cluster, clock, settings = self._cluster, self._clock, self._settings
        serve_metrics(cluster, self._real_load, self._scenario.metrics, faults, lambda: clock.now() - self._started_s)
        client = cluster.client(
            latency=settings.latency, faults=faults, seed=settings.seed, by_events=settings.by_events
        )
        return self._make(client, clock, random.Random(f"{settings.seed} scheduler"))

    def _declares_usage(self) -> bool:
        pods = (arrival.pod for arrival in self._scenario.arrivals)
        return declare_usage(self._scenario.nodes) or declare_usage(pods)

    def _real_load(self) -> RealLoad:
        if self._load is None:
            self._load = RealLoad(self._cluster)
        return self._load

    # --- playing --------------------------------------------------------------------------------------------------

    def _create_existing(self) -> None:
        """Create the pods that have a node from the start, before the scheduler starts."""
        for arrival in self._scenario.arrivals:
            if _is_there_at_start(arrival):
                self._create(arrival, 0.0)

    async def _play(self, started_s: float) -> Ending:
        """Play arrivals, departures and changes, by events of the loop, until there is a reason to stop."""
        self._ended = self._loop.create_future()
        arrivals, changes = self._scenario.arrivals, self._scenario.changes
        self._next_arrival_s = started_s + arrivals[self._arrived].at_s if self._arrived < len(arrivals) else math.inf
        self._next_change_s = (
            started_s + changes[self._changes_made].at_s if self._changes_made < len(changes) else math.inf
        )
        self._go_on()
        try:
            return await self._ended
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _go_on(self) -> None:
        """Play what is due, departures first: what leaves at an instant makes room for what comes."""
        try:
            now = self._clock.now()
            if self._next_change_s < math.inf:
                self._make_changes(now - self._started_s)
            if self._departures and self._departures[0][0] <= now:
                self._play_departures(now)
            self._play_arrivals(now)
        except Exception as error:
            self._fail(error)

    def _play_departures(self, now: float) -> None:
        departures = self._departures
        while departures and departures[0][0] <= now:
            _, _, key, uid = heapq.heappop(departures)
            pod = self._pods.get(key)
            if pod is not None and pod.metadata.uid == uid:
                self._cluster.delete_pod(key)

    def _play_arrivals(self, now: float) -> None:
        """Create the pods that are due, CHUNK at a time, then find out what comes next."""
        arrivals, started_s = self._scenario.arrivals, self._started_s
        created = 0
        while self._next_arrival_s <= now:
            arrival = arrivals[self._arrived]
            self._arrived = following = self._arrived + 1
            self._next_arrival_s = started_s + arrivals[following].at_s if following < len(arrivals) else math.inf
            if not _is_there_at_start(arrival):
                self._create(arrival, started_s)
                created += 1
                if created == CHUNK:
                    break
        if self._progress is not None:
            self._show(self._progress)
        if created == CHUNK:
            self._loop.call_soon(self._play_more)
            return
        if self._departures and self._departures[0][0] <= now:
            self._play_departures(now)  # a pod that leaves when it comes is not there for the scheduler, as in a trace
        until = self._next_event()
        if until < math.inf and self._settings.max_time_s is None:  # nearly always: something is still to come
            self._sleep(until)
            return
        ending, until = self._what_next(now, until)
        if ending is None:
            self._sleep(until)
        elif not self._ended.done():
            self._ended.set_result(ending)

    def _play_more(self) -> None:
        try:
            self._play_arrivals(self._clock.now())
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def _what_next(self, now: float, until: float) -> tuple[Ending | None, float]:
        """Return the reason to stop and the time now, or None and the time to wait for.

        `until`: the time of the next event, infinity if none is to come.
        """
        started_s, limit = self._started_s, self._settings.max_time_s
        if limit is not None and now >= started_s + limit:
            return Ending.TIME_LIMIT, now
        if until == math.inf:
            if not self._accounting.pending:
                return Ending.ALL_PLACED, now
            # A pod whose bindings all fail changes for ever: its nominatedNodeName comes and goes.
            changed_s = min(self._last_change_s, self._accounting.now_s + RETRIED_S)
            # Pods may wait for metrics that will be available again after the last outage.
            changed_s = max(changed_s, self._last_made_s, started_s + self._scenario.metrics.last_outage_s)
            until = changed_s + QUIET_S
            if now >= until:
                retry_s = self._scheduler.next_retry()
                if retry_s is not None and retry_s <= self._accounting.now_s + RETRIED_S:
                    until = max(retry_s, now) + 1.0  # when it has been tried
                elif not self._unexplained():
                    return Ending.REST_UNSCHEDULABLE, now
                elif now >= (until := changed_s + FORGOTTEN_S):
                    return Ending.FORGOTTEN, now
        return None, until if limit is None else min(until, started_s + limit)

    def _next_event(self) -> float:
        """Return when the next pod or change comes, or a pod leaves; infinity if nothing does."""
        next_s, departures = self._next_arrival_s, self._departures
        if departures and departures[0][0] < next_s:
            next_s = departures[0][0]
        return next_s if next_s <= self._next_change_s else self._next_change_s

    def _make_changes(self, until_s: float) -> None:
        """Carry out the scenario's recorded changes up to `until_s`, in seconds since the first arrival."""
        changes = self._scenario.changes
        while self._changes_made < len(changes) and changes[self._changes_made].at_s <= until_s:
            apply_change(self._cluster, changes[self._changes_made])
            self._changes_made += 1
            self._last_change_s = self._last_made_s = self._clock.now()
        is_more = self._changes_made < len(changes)
        self._next_change_s = self._started_s + changes[self._changes_made].at_s if is_more else math.inf

    def _create(self, arrival: Arrival, started_s: float) -> None:
        pod = self._cluster.create_pod(arrival.pod)
        if self._gangs is not None:
            self._gangs.arrived(pod, self._clock.now())
        if arrival.leaves_at_s is not None:
            self._schedule_departure(started_s + arrival.leaves_at_s, pod)
        elif arrival.runs_s is not None:
            self._runs_s[pod.metadata.uid] = arrival.runs_s
        if pod.metadata.deletion_timestamp is not None:
            self._schedule_departure(self._clock.now() + (grace_s(pod) if pod.spec.node_name else 0.0), pod)
        if pod.spec.node_name:
            self._begin(pod)

    def _begin(self, pod: Pod) -> None:
        """Let a pod run that has a node, and the pods of its gang that have waited for it."""
        runs_s = self._runs_s.pop(pod.metadata.uid, None)
        if self._gangs is None:
            if runs_s is not None:
                self._schedule_departure(self._clock.now() + runs_s, pod)
            return
        now = self._clock.now()
        for each, lasts_s in self._gangs.got_node(pod, runs_s, now):
            if lasts_s is not None:
                self._schedule_departure(now + lasts_s, each)

    def _schedule_departure(self, at_s: float, pod: Pod) -> None:
        self._departure_number += 1
        metadata = pod.metadata
        key = f"{metadata.namespace}/{metadata.name}"  # as `pod.key`, without its call
        heapq.heappush(self._departures, (at_s, self._departure_number, key, metadata.uid))
        if at_s < self._sleeps_until_s:
            self._wake()

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        self._last_change_s = self._clock.now()
        if before is None:
            assert after is not None
            if after.spec.volumes:
                self._volumes.pod_changed(None, after)
            return
        if after is None and before.spec.volumes:
            self._volumes.pod_changed(before, None)
        if after is None or after.status.phase in FINISHED:
            if _has_claims(before):
                self._claims.note_end(before)
            if self._gangs is not None:
                self._gangs.left(before, self._last_change_s)
            if after is None:
                return
        if after.metadata.deletion_timestamp is not None and before.metadata.deletion_timestamp is None:
            self._schedule_departure(self._last_change_s + grace_s(after), after)
        if before.spec.node_name or not after.spec.node_name:
            return
        self._begin(after)
        if not self._accounting.pending and self._is_asleep:
            next_s = self._next_event()
            if next_s == math.inf or next_s <= self._last_change_s:
                self._wake()  # this may have been the last one

    def _sleep(self, until: float) -> None:
        self._is_asleep = True
        self._sleeps_until_s = until
        if self._timer is not None:
            self._timer.cancel()  # if it has not fired yet: the player was woken otherwise
        self._timer = self._loop.call_at(until, self._time_has_come)

    def _time_has_come(self) -> None:
        """Go on after all else that is due now, as `_wake`; at once if there is nothing else."""
        if self._is_asleep and self._loop.is_at_last_call():
            self._is_asleep = False
            self._sleeps_until_s = 0.0
            self._go_on()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._is_asleep:
            self._is_asleep = False
            self._sleeps_until_s = 0.0
            self._loop.call_soon(self._go_on)

    def _show(self, progress: Progress) -> None:
        books = self._accounting
        progress.update(arrived=self._arrived, bound=books.bound, pending=books.pending, virtual_s=self._clock.now())

    # --- checking -------------------------------------------------------------------------------------------------

    def _without_condition(self) -> Iterator[Pod]:
        """Yield the pending pods of the simulated scheduler that have no PodScheduled condition with a reason."""
        for pod in self._cluster.pods.values():
            is_ours = not pod.spec.node_name and pod.spec.scheduler_name in self._settings.scheduler_names
            if is_ours and unscheduled_condition(pod) is None:
                yield pod

    def _held_back(self) -> dict[str, str]:
        """Return pod uid -> plugin for the pods that a plugin from outside never let be tried."""
        found = {pod.metadata.uid: self._scheduler.held_back_by(pod.metadata.uid) for pod in self._without_condition()}
        return {uid: plugin for uid, plugin in found.items() if plugin}

    def _unexplained(self) -> list[str]:
        """Return the pending pods of which nothing says why they have no node.

        Pods whose claims are missing and those that a plugin holds back are left out: they are not tried.
        """
        return [
            pod.key
            for pod in self._without_condition()
            if not awaited_claim(self._cluster, pod) and not self._scheduler.held_back_by(pod.metadata.uid)
        ]

    def _violations(self, ending: Ending) -> list[str]:
        books = self._accounting
        found = list(books.violations)
        if books.violation_count > len(found):
            found.append(f"and {books.violation_count - len(found)} more of this kind")
        if ending is not Ending.TIME_LIMIT:
            found += [f"pod {key} was left without a node and without a reason" for key in self._unexplained()]
        return found


def unscheduled_condition(pod: Pod) -> PodCondition | None:
    """Return the pod's condition PodScheduled=False that has a message; None if there is none."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
            return condition
    return None


def _is_there_at_start(arrival: Arrival) -> bool:
    """Return True for a pod that has its node before the scheduler starts."""
    return bool(arrival.pod.spec.node_name) and arrival.at_s <= 0.0


def _has_claims(pod: Pod) -> bool:
    return pod.spec.resource_claims is not None or pod.status.extended_resource_claim_status is not None


async def _unless_ended(running: asyncio.Future[None], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the scheduler's task `running` ends first, raise its error, or InternalError."""
    task: asyncio.Future[T] = asyncio.ensure_future(work)
    both: list[asyncio.Future[Any]] = [running, task]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        running.result()
        raise InternalError("the scheduler stopped in the middle of a simulation")
    finally:
        await cancel_and_wait(task)
