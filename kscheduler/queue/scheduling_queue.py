"""The scheduling queue: pods that are active, backing off, unschedulable, gated or in flight. kube-scheduler's rules.

This is the interface of the queue: each method decides where a pod goes next and keeps every pod in exactly one pool.
Other modules of this package decide the order of pools, the length of a backoff, and which events justify another
attempt. No I/O, no clock: `now` is monotonic seconds. Nodes and plugins are known by name only.

If the clock jumps back, time stands still for the queue until the clock is again where it was: no backoff becomes
shorter, and active pods, and those that may leave their backoff early, are popped meanwhile. If it jumps forward, all
backoffs and timeouts that end in between are over at once.

Three rules differ from kube-scheduler's on purpose. A pod that is deleted while it is in flight does not come back: its
return is dropped here, instead of the caller looking the pod up. An update of a waiting pod is not an event for
other pods in flight. And a pod that waits for a write under way may be put aside instead of being tried and rejected.
"""

from __future__ import annotations

import functools
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, count, islice
from typing import Any, Final, NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.config.releases import DEFAULT_RELEASE, Release
from kscheduler.errors import InternalError
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    POP_FROM_BACKOFF_QUEUE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    pod_events,
    waiting_pod_label,
)
from kscheduler.framework.status import Code, Status
from kscheduler.framework.stopwatch import stands_still
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.active_queue import ActiveQueue, LessKey
from kscheduler.queue.backoff_queue import Backoff, BackoffQueue, is_backing_off
from kscheduler.queue.in_flight import InFlightPods, QueuedEvent
from kscheduler.queue.pod_info import NO_BACKOFF, NOBODY, PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.queue.requeue import Registered, RequeueRules, Strategy
from kscheduler.queue.unschedulable_pods import UnschedulablePods
from kscheduler.queue.waking import PIECE_STEPS, Waker
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

UNSCHEDULABLE_FLUSH_S = 30.0  # interval at which kube-scheduler looks for pods that waited too long
DEFER_S = 1.0  # for which a pod may be put aside: as long as the first backoff of one that is rejected instead
MOST_EVENTS = 256  # that are remembered: far more than there are constants
# Before Python 3.12, a look at a member of an Enum by its class costs several times as much as one at a global name.
_GONE: Final = Pool.GONE
_IN_FLIGHT: Final = Pool.IN_FLIGHT
_DEBUG = os.environ.get("KSCHEDULER_DEBUG") == "1"


class QueueCounts(NamedTuple):
    """The number of pods in each pool, as in the pending_pods metric; pods in flight are in no pool."""

    active: int
    backoff: int
    unschedulable: int
    gated: int


class FirstPods(NamedTuple):
    """The first pods of each pool: in the order of popping, of ending backoffs, and of waiting, the longest first."""

    active: list[QueuedPodInfo]
    backoff: list[QueuedPodInfo]
    unschedulable: list[QueuedPodInfo]
    gated: list[QueuedPodInfo]


class SchedulingQueue:
    unschedulable_type: type[UnschedulablePods] = UnschedulablePods

    def __init__(
        self,
        less_key: LessKey,
        pre_enqueue: Callable[[PodInfo], Status | None],
        *,
        registered: Mapping[str, Registered],
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        max_in_unschedulable_s: float = 300.0,
        observer: Measurements | None = None,
        stopwatch: Callable[[], float] = stands_still,
        clock: Callable[[], float] = stands_still,
        piece_steps: int = PIECE_STEPS,
        lane_of: Callable[[PodInfo], Lane] | None = None,
        release: Release = DEFAULT_RELEASE,
        make_active: Callable[[LessKey, Iterator[int]], ActiveQueue] = ActiveQueue,
    ) -> None:
        """Build an empty queue. `pre_enqueue` returns None for a pod that may be queued, or the gating plugin's status.

        `registered`: profile, or ANY_PROFILE -> plugin -> events. `stopwatch` measures hints. `clock` and `piece_steps`
        only limit the time and the steps that one piece of requeueing takes. `lane_of` returns the lane of a pod, i.e.
        the extenders that it calls; without it no pod calls any (the plain lane). `release`: of Kubernetes, whose
        kube-scheduler is emulated. `make_active` makes the pool of active pods, with the tickets of its heaps.
        """
        self.release = release
        self._added = waiting_pod_label(Action.ADD, release)
        self._added_by_update = self._added if release.adds_unknown_pods else waiting_pod_label(Action.UPDATE, release)
        tickets = count(1)
        self._less_key = less_key
        self._pre_enqueue = pre_enqueue
        self._lane_of = lane_of
        self._observer = observer or Measurements()
        self._rules = RequeueRules(registered, self._observer, stopwatch, release)
        self._backoff_rule = Backoff(initial_backoff_s, max_backoff_s)
        self._max_in_unschedulable_s = max_in_unschedulable_s
        self._now = -math.inf  # the latest moment seen
        self._pods: dict[str, QueuedPodInfo] = {}  # pod uid -> pod in any pool; pods in flight are not here
        self.uids = self._pods.keys()  # of these pods, as a view
        self._active = make_active(less_key, tickets)
        self._backoff = BackoffQueue(less_key, tickets)
        self._unschedulable = self.unschedulable_type(self._rules)
        self._waker = Waker(self._unschedulable, self._rules, self._move, clock, piece_steps)
        self._in_flight = InFlightPods()
        self.in_flight_uids = self._in_flight.pods.keys()  # as a view
        # (when it is to come back, its attempts before, pod), also of pods that have come back before that
        self._deferred: deque[tuple[float, int, QueuedPodInfo]] = deque()
        # id of a cluster event -> did a plugin register for it? Nearly all events are constants, hashing one is a call.
        self._registered: dict[int, bool] = {}
        self._events: list[ClusterEvent] = []  # these, so that no id comes to mean another event
        self._last_tick = -math.inf  # the last moment of the 30 s grid at which timeouts were looked for
        if _DEBUG:
            self._check_always()

    # --- pods come, change and go --------------------------------------------------------------------------------

    def add(self, pod_info: PodInfo, now: float) -> None:
        """Add a new pod without a node. A pod that is in the queue or in flight already is updated instead."""
        uid = pod_info.uid
        if uid in self._pods or uid in self._in_flight.pods:
            self.update(None, pod_info, now)
            return
        if now < self._now:
            now = self._now
        self._now = now
        qpi = QueuedPodInfo(pod_info, now)
        gate = self._pre_enqueue(pod_info)
        if gate is None or self._is_open(gate, qpi):
            self._enter_active(qpi, self._added, now)
        else:
            self._wait(qpi, self._added)

    def update(self, old: Pod | None, new: PodInfo, now: float) -> None:
        """Apply an update of a pod without a node, in any pool or in flight. `old` None: the version in the queue."""
        flying = self._in_flight.pods.get(new.uid)
        if flying is not None:
            self._update_in_flight(flying, old, new)
            return
        now = self._at(now)
        qpi = self._pods.get(new.uid)
        if qpi is None:
            self._place(QueuedPodInfo(new, now), Strategy.IMMEDIATELY, self._added_by_update, now)
        elif qpi.pool is Pool.UNSCHEDULABLE or qpi.pool is Pool.GATED:
            self._update_unschedulable(qpi, old, new, now)
        else:
            self._update_in_place(qpi, new)

    def _update_in_flight(self, flying: QueuedPodInfo, old: Pod | None, new: PodInfo) -> None:
        """Record an update of a pod in flight, for when it returns to the queue; its cycle keeps the older version."""
        news = self._in_flight.news(new.uid)
        before = old or (news.latest or flying.pod_info).pod
        events = pod_events(before, new.pod, self.release)
        for event in events:
            news.events.append(QueuedEvent(event, before, new.pod))
        news.latest = new
        news.is_deleted = False

    def _update_unschedulable(self, qpi: QueuedPodInfo, old: Pod | None, new: PodInfo, now: float) -> None:
        before = old or qpi.pod_info.pod
        # 1. Decide unfinished earlier events for the older version of the pod.
        strategy, label = self._waker.overtake(qpi)
        events = pod_events(before, new.pod, self.release)
        if new.pod.spec.scheduler_name != qpi.pod_info.pod.spec.scheduler_name:  # another profile's plugins decide
            self._unschedulable.update(qpi, new)
        # 2. Decide the events of the update. A pod that leaves need not get another place among the waiting pods.
        qpi.pod_info = new
        if strategy is not Strategy.SKIP:
            self._move(qpi, strategy, label, now)
            return
        for event in events:
            strategy = self._rules.decide(qpi, QueuedEvent(event, before, new.pod))
            if strategy is not Strategy.SKIP:
                self._move(qpi, strategy, event.label, now)
                return
        self._unschedulable.update(qpi, new)

    def _update_in_place(self, qpi: QueuedPodInfo, new: PodInfo) -> None:
        """Update a pod in activeQ or backoffQ; its position changes only if its sort key or its extenders do."""
        key_before = self._less_key(qpi)
        qpi.pod_info = new
        lane = PLAIN if self._lane_of is None else self._lane_of(new)
        is_active = qpi.pool is Pool.ACTIVE
        is_misplaced = is_active and self._active.is_misplaced(qpi)
        if is_misplaced or lane != qpi.lane or self._less_key(qpi) != key_before:
            pool: ActiveQueue | BackoffQueue = self._active if is_active else self._backoff
            pool.remove(qpi)
            qpi.lane = lane
            pool.push(qpi)

    def delete(self, uid: str) -> None:
        """Remove a deleted or bound pod; unknown pods are ignored. A pod in flight will not return to the queue."""
        if uid in self._in_flight.pods:
            self._in_flight.news(uid).is_deleted = True
            return
        qpi = self._pods.get(uid)
        if qpi is not None:
            self._take(qpi)

    # --- one attempt ---------------------------------------------------------------------------------------------

    def pop(self, now: float, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        """Pop the next pod of the lane, or return None. The pod is in flight until it is returned, or `done` is called.

        A lane has the pods that call the same extenders; the plain lane those that call none. If the lane has no active
        pod, a rejected pod is popped before its backoff is over, so that the scheduler is not idle; in lanes of
        extenders only if no lane has an active pod, since calls of extenders have a cost.
        """
        qpi = self._active.pop(lane)
        if qpi is None:
            if lane != PLAIN and self._active:
                return None
            return self._pop_early(now, lane)
        self._depart((qpi,), now)
        return qpi

    def _pop_early(self, now: float, lane: Lane) -> QueuedPodInfo | None:
        """Pop the first rejected pod of a lane that is backing off; None if there is none.

        A lane has the pods that call the same extenders.
        """
        qpi = self._backoff.pop_early(lane)
        if qpi is None:
            return None
        self._observer.incoming["active", POP_FROM_BACKOFF_QUEUE].value += 1
        self._depart((qpi,), now)
        return qpi

    def _depart(self, popped: Sequence[QueuedPodInfo], now: float) -> None:
        """Mark popped pods as in flight."""
        pods, in_flight = self._pods, _IN_FLIGHT
        for qpi in popped:
            del pods[qpi.pod_info.uid]
            if qpi.initial_attempt_timestamp is None:
                qpi.initial_attempt_timestamp = self._at(now)
            qpi.attempts += 1
            qpi.pool = in_flight
            if qpi.unschedulable_plugins or qpi.pending_plugins:
                qpi.unschedulable_plugins = qpi.pending_plugins = NOBODY
        self._in_flight.begin(popped)

    def pop_many(self, now: float, most: int) -> list[QueuedPodInfo]:
        """Pop up to `most` next pods of the plain lane (pods that call no extender), as that many calls of `pop` would.

        Only one pod at a time is popped before its backoff is over, since its decision may make others active.
        """
        popped = self._active.pop_many(most)
        if popped:
            self._depart(popped, now)
            return popped
        early = self._pop_early(now, PLAIN)
        return [] if early is None else [early]

    def put_back(self, popped: Sequence[QueuedPodInfo]) -> None:
        """Put pods back that were popped in this order and not attempted, as if they had stayed in activeQ."""
        for qpi in reversed(popped):
            uid = qpi.uid
            news = self._in_flight.news_of(uid)
            if self._in_flight.end(uid) is None:
                raise InternalError(f"pod {qpi.key} was put back, but is not in flight")
            if news is not None and news.is_deleted:
                qpi.pool = Pool.GONE
                continue
            if news is not None and news.latest is not None:
                qpi.pod_info = news.latest
            qpi.attempts -= 1
            self._set_lane(qpi)
            self._active.put_back(qpi)
            self._pods[uid] = qpi

    def lanes(self) -> list[Lane]:
        """Return the lanes, except the plain one, from which `pop` returns a pod, in the order of their first pods.

        A lane has the pods that call the same extenders; the plain lane those that call none.
        """
        if self._lane_of is None:
            return []
        return self._active.lanes() if self._active else self._backoff.early_lanes()

    def done(self, uid: str) -> None:
        """Remove a pod that is in flight and will not return, because it is bound or dropped.

        Calling it twice does no harm. Must not be called while the attempt may still fail: the queue keeps events for a
        pod only while the pod is in a pool or in flight.
        """
        flown = self._in_flight.end(uid)
        if flown is not None:
            flown.pool = _GONE

    def drop_bound(self, uid: str) -> None:
        """Remove a pod that the watch shows on the node it was assigned to, whatever the answer to its binding will be.

        If it is in flight, its attempt has ended: it misses no more events.
        """
        flown = self._in_flight.end(uid)
        if flown is not None:
            flown.pool = _GONE
        elif uid in self._pods:
            self.delete(uid)

    def add_unschedulable_if_not_present(
        self, qpi: QueuedPodInfo, now: float, plugins: Set[str], pending_plugins: Set[str] = NOBODY
    ) -> Pool:
        """Take back a pod in flight that `plugins` rejected; it waits for an event that one of them registered.

        If such an event came while the pod was in flight, it is tried again after its backoff, or at once if a pending
        plugin wants that. Returns the pod's new pool; GONE if it was deleted meanwhile. Without plugins the pod counts
        as one that met a fault.
        """
        if not plugins and not pending_plugins:
            return self.requeue_after_error(qpi, now)
        if qpi.uid in self._pods:
            return self._pods[qpi.uid].pool
        qpi.unschedulable_count += 1
        qpi.consecutive_errors_count = 0
        qpi.unschedulable_plugins = frozenset(plugins)
        qpi.pending_plugins = frozenset(pending_plugins)
        return self._return(qpi, now)

    def defer(self, qpi: QueuedPodInfo, now: float, plugin: str) -> bool:
        """Put a pod aside that was popped and not attempted, until an event for which `plugin` registered a hint comes.

        It comes back after DEFER_S seconds at the latest. Returns False, with the pod still in flight, if it has been
        put aside before, so that it cannot be put off forever.
        """
        if qpi.was_deferred:
            return False
        qpi.was_deferred = True
        qpi.attempts -= 1
        qpi.unschedulable_plugins = frozenset((plugin,))
        if self._return(qpi, now) is Pool.UNSCHEDULABLE:
            qpi.backoff_expiration = NO_BACKOFF  # nothing has failed
            self._deferred.append((self._now + DEFER_S, qpi.attempts, qpi))
        return True

    def requeue_after_error(self, qpi: QueuedPodInfo, now: float) -> Pool:
        """Take back a pod in flight whose attempt met a fault; its backoff begins. Returns the pod's new pool."""
        if qpi.uid in self._pods:
            return self._pods[qpi.uid].pool
        qpi.consecutive_errors_count += 1
        qpi.unschedulable_plugins = qpi.pending_plugins = NOBODY
        return self._return(qpi, now)

    def _return(self, qpi: QueuedPodInfo, now: float) -> Pool:
        # 1. The backoff counts from now.
        now = self._at(now)
        qpi.timestamp = now
        qpi.backoff_expiration = self._backoff_rule.expiration(qpi)
        qpi.was_flushed = False
        qpi.flushed_at = -math.inf
        # 2. Decide the events that came while it was in flight, for the pod as it is now: its next attempt sees that.
        news = self._in_flight.news_of(qpi.uid)
        if news is not None and news.latest is not None and not news.is_deleted:
            qpi.pod_info = news.latest
        strategy = self._strategy_after_flight(qpi)
        self._in_flight.end(qpi.uid)
        if news is not None and news.is_deleted:
            qpi.pool = Pool.GONE
            return Pool.GONE
        # 3. Put it into the pool that follows.
        return self._place(qpi, strategy, SCHEDULE_ATTEMPT_FAILURE, now)

    def _strategy_after_flight(self, qpi: QueuedPodInfo) -> Strategy:
        flying = self._in_flight.get(qpi.uid)
        if flying is None or not qpi.has_rejectors:
            return Strategy.AFTER_BACKOFF  # missed events are unknown, or a fault: no event would requeue it
        best = Strategy.SKIP
        for queued_event in self._in_flight.missed(flying):
            if _is_own_room(queued_event, qpi):
                continue
            best = max(best, self._rules.decide(qpi, queued_event))
            if best is Strategy.IMMEDIATELY or (best is Strategy.AFTER_BACKOFF and not qpi.pending_plugins):
                break
        return best

    # --- waking pods ---------------------------------------------------------------------------------------------

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old_obj: object, new_obj: object, now: float, *, up_to_priority: int | None = None
    ) -> int:
        """Requeue the pods that an event may make schedulable, and return how many were requeued at once.

        If there are more hints to call and pods to move than fit into one piece of work, `flush` does the rest. If no
        plugin that rejected a waiting pod registered the event, it costs one dictionary look-up for each such plugin.
        `up_to_priority`: waiting pods of a higher priority are not concerned; pods in flight always are.
        """
        if not self._pods and not self._in_flight.pods:
            return 0
        if not event.is_wildcard:
            is_registered = self._registered.get(id(event))
            if is_registered is None:
                is_registered = self._look_up(event)
            if not is_registered:
                return 0
        queued_event, woken = QueuedEvent(event, old_obj, new_obj), 0
        if self._unschedulable.rejected or self._unschedulable.gated:
            priority = math.inf if up_to_priority is None else up_to_priority
            woken = self._waker.process(queued_event, self._at(now), priority)
        self._in_flight.record(queued_event)
        return woken

    def _look_up(self, event: ClusterEvent) -> bool:
        """Return True if a plugin registered for an event; remembered for events that live as long as the queue."""
        is_registered = bool(self._rules.interested(event))
        if len(self._events) < MOST_EVENTS:
            self._events.append(event)
            self._registered[id(event)] = is_registered
        return is_registered

    def _move(self, qpi: QueuedPodInfo, strategy: Strategy, label: str, now: float) -> bool:
        """Move an unschedulable or gated pod to the pool that the strategy names. Returns False if it is gated now."""
        self._unschedulable.remove(qpi)
        self._place(qpi, strategy, label, now)
        return qpi.gated_by is None

    def activate(self, uids: Iterable[str], now: float) -> int:
        """Make these pods active on a plugin's request, without regard to backoff, and return how many became active.

        Pods in flight are tried again after their backoff if they are rejected; unknown pods are ignored.
        """
        moved, now = 0, self._at(now)
        for uid in uids:
            qpi = self._pods.get(uid)
            if uid in self._in_flight:
                self._in_flight.news(uid).events.append(QueuedEvent(FORCE_ACTIVATE, None, None))
            elif qpi is not None and qpi.pool is not Pool.ACTIVE:
                moved += self._activate(qpi, now)
        return moved

    def try_again(self, is_wanted: Callable[[QueuedPodInfo], bool], event: ClusterEvent, now: float) -> int:
        """Requeue the rejected pods that are wanted, after their backoff, and return how many left their pool.

        `event`: a wildcard, which says why. Wanted pods in flight are tried again if they are rejected.
        """
        now = self._at(now)
        wanted = [qpi for qpi in self._unschedulable.rejected.values() if is_wanted(qpi)]
        for qpi in wanted:
            self._move(qpi, Strategy.AFTER_BACKOFF, event.label, now)
        for flying in self._in_flight:
            if is_wanted(flying):
                self._in_flight.news(flying.uid).events.append(QueuedEvent(event, None, None))
        return len(wanted)

    def end_error_backoffs(self, uids: Iterable[str], now: float) -> int:
        """Make those of these pods active that back off after a fault, since the fault is over; return how many."""
        now = self._at(now)
        ended = [qpi for uid in uids if (qpi := self._pods.get(uid)) is not None and qpi.pool is Pool.ERROR_BACKOFF]
        for qpi in ended:
            self._take(qpi)
            self._enter_active(qpi, BACKOFF_COMPLETE, now)
        return len(ended)

    def _activate(self, qpi: QueuedPodInfo, now: float) -> bool:
        was_admitted = qpi.pool is Pool.BACKOFF or qpi.pool is Pool.ERROR_BACKOFF
        self._take(qpi)
        if was_admitted:
            self._enter_active(qpi, FORCE_ACTIVATE.label, now)
            return True
        return self._place(qpi, Strategy.IMMEDIATELY, FORCE_ACTIVATE.label, now) is Pool.ACTIVE

    # --- time ----------------------------------------------------------------------------------------------------

    def flush(self, now: float) -> int:
        """Move pods whose backoff is over, continue unfinished events, and requeue pods that waited too long.

        Returns how many pods moved. Call it often: each call spends at most a few ms on unfinished events.

        As in kube-scheduler, backoffs end at whole seconds and timeouts every 30 s, on multiples of this
        clock, however seldom or often flush is called.
        """
        if now < self._now:
            now = self._now
        self._now = now
        moved = 0
        if self._backoff.pods:
            for qpi in self._backoff.pop_completed(now):
                del self._pods[qpi.uid]
                self._enter_active(qpi, BACKOFF_COMPLETE, now)
                moved += 1
        if self._deferred and self._deferred[0][0] <= now:
            moved += self._end_deferrals(now)
        if self._waker.is_due:
            moved += self._waker.go_on(now)
        tick = math.floor(now / UNSCHEDULABLE_FLUSH_S) * UNSCHEDULABLE_FLUSH_S
        if tick > self._last_tick:
            self._last_tick = tick
            if self._unschedulable.rejected or self._unschedulable.gated:
                moved += self._wake_overdue(tick, now)
        return moved

    def _end_deferrals(self, now: float) -> int:
        """Make the pods active that were put aside long enough, and return how many."""
        moved = 0
        while self._deferred and self._deferred[0][0] <= now:
            _, attempts, qpi = self._deferred.popleft()
            if qpi.pool is Pool.UNSCHEDULABLE and qpi.attempts == attempts:
                self._move(qpi, Strategy.IMMEDIATELY, FORCE_ACTIVATE.label, now)
                moved += 1
        return moved

    def _wake_overdue(self, tick: float, now: float) -> int:
        before = tick - self._max_in_unschedulable_s
        return self._waker.wake_overdue(QueuedEvent(UNSCHEDULABLE_TIMEOUT, None, None), before, tick, now)

    def next_deadline(self, now: float) -> float | None:
        """Return the earliest time, not before `now`, at which `flush` has something to do; None if there is none."""
        if self._waker:
            return now
        waits_from = self._waker.gated_from() if self._unschedulable.gated else math.inf
        longest_waiting = next(iter(self._unschedulable.rejected.values()), None)
        if longest_waiting is not None:
            waits_from = min(waits_from, longest_waiting.timestamp)
        deadline = self._backoff.next_completion()
        if self._deferred:
            deadline = min(deadline, self._deferred[0][0])
        if waits_from < math.inf:
            grid = math.floor((waits_from + self._max_in_unschedulable_s) / UNSCHEDULABLE_FLUSH_S) + 1
            deadline = min(deadline, max(grid * UNSCHEDULABLE_FLUSH_S, self._last_tick + UNSCHEDULABLE_FLUSH_S))
        return None if deadline == math.inf else max(deadline, now)

    def _at(self, now: float) -> float:
        """Return the queue's time: the latest `now` that it was given, so that it never goes back."""
        self._now = max(self._now, now)
        return self._now

    # --- placing: the only ways into and out of a pool -------------------------------------------------------------

    def _place(self, qpi: QueuedPodInfo, strategy: Strategy, label: str, now: float) -> Pool:
        """Put a pod that is in no pool into the one that the strategy names, or gate it if a PreEnqueue plugin does.

        The pod enters `_pods` only after its pool, so that after a fault in between it may be returned again.
        """
        if strategy is Strategy.SKIP or not self._admit(qpi):
            self._wait(qpi, label)
        elif strategy is Strategy.AFTER_BACKOFF and is_backing_off(qpi, now):
            self._set_lane(qpi)
            self._backoff.push(qpi)
            self._pods[qpi.pod_info.uid] = qpi
            self._observer.incoming["backoff", label].value += 1
        else:
            self._enter_active(qpi, label, now)
        return qpi.pool

    def _wait(self, qpi: QueuedPodInfo, label: str) -> None:
        """Let a rejected or gated pod wait for an event."""
        self._unschedulable.add(qpi)
        self._pods[qpi.pod_info.uid] = qpi
        self._observer.incoming["unschedulable", label].value += 1

    def _enter_active(self, qpi: QueuedPodInfo, label: str, now: float) -> None:
        if qpi.initial_attempt_timestamp is None:
            qpi.initial_attempt_timestamp = now
        uid = qpi.pod_info.uid
        if self._lane_of is not None:
            qpi.lane = self._lane_of(qpi.pod_info)
        self._active.push(qpi)
        self._pods[uid] = qpi
        self._observer.incoming["active", label].value += 1

    def _set_lane(self, qpi: QueuedPodInfo) -> None:
        if self._lane_of is not None:
            qpi.lane = self._lane_of(qpi.pod_info)

    def _admit(self, qpi: QueuedPodInfo) -> bool:
        """Run PreEnqueue.

        Returns False if a plugin gates the pod, which is recorded, so that its events find the pod.
        """
        gate = self._pre_enqueue(qpi.pod_info)
        if gate is None or self._is_open(gate, qpi):
            if qpi.gated_by is not None and not self.release.wakes_gated_by_wildcard and self._is_overdue(qpi):
                qpi.was_flushed = True  # marked at a tick, though PreEnqueue did not run again
            qpi.gated_by = None
            return True
        return False

    def _is_overdue(self, qpi: QueuedPodInfo) -> bool:
        """Return True if the last tick came later than the pod may wait without an attempt."""
        tick = math.floor(self._now / UNSCHEDULABLE_FLUSH_S) * UNSCHEDULABLE_FLUSH_S
        return tick - self._max_in_unschedulable_s > qpi.timestamp

    def _is_open(self, gate: Status, qpi: QueuedPodInfo) -> bool:
        if gate.code is Code.SUCCESS:
            return True
        if not gate.plugin:
            raise InternalError(f"PreEnqueue of pod {qpi.key}: expected a status signed by its plugin, got {gate}")
        if gate.code is Code.ERROR and qpi.gated_by != gate.plugin:  # not again whenever an event asks the plugin
            log.error(
                "PreEnqueue plugin failed, so the pod is held back",
                extra={"pod": qpi.key, "plugin": gate.plugin, "err": gate.message},
            )
        qpi.gated_by = gate.plugin
        qpi.unschedulable_plugins |= {gate.plugin}
        if self.release.wakes_gated_by_wildcard:
            qpi.was_flushed = False
        return False

    def _take(self, qpi: QueuedPodInfo) -> None:
        """Remove a pod from its pool and from the queue."""
        del self._pods[qpi.uid]
        if qpi.pool is Pool.ACTIVE:
            self._active.remove(qpi)
        elif qpi.pool is Pool.BACKOFF or qpi.pool is Pool.ERROR_BACKOFF:
            self._backoff.remove(qpi)
        else:
            self._unschedulable.remove(qpi)
        qpi.pool = Pool.GONE

    # --- looking -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of pods in all pools, without those in flight."""
        return len(self._pods)

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._pods.get(uid)

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight.pods

    @property
    def is_waking(self) -> bool:
        """True if there are events whose waiting pods are not all processed yet; `flush` continues with them."""
        return bool(self._waker.wakes)

    def counts(self) -> QueueCounts:
        return QueueCounts(
            active=len(self._active),
            backoff=len(self._backoff),
            unschedulable=len(self._unschedulable.rejected),
            gated=len(self._unschedulable.gated),
        )

    def pending_pods(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pods of all pools: active, backing off, unschedulable and gated; unordered within a pool."""
        return chain(self._active, self._backoff, self._unschedulable)

    def first_pods(self, most: int) -> FirstPods:
        """Return up to `most` pods of each pool, in order. O(most), however long the queue is."""
        return FirstPods(
            self._active.first(most),
            self._backoff.first(most),
            list(islice(self._unschedulable.rejected.values(), most)),
            list(islice(self._unschedulable.gated.values(), most)),
        )

    def rejected_by(self) -> dict[str, int]:
        """Return rejecting plugin -> number of unschedulable pods, as `rejections` counts them, in O(plugins)."""
        return self._unschedulable.rejected_by()

    def in_flight_events(self) -> Counter[str]:
        """Return event label -> number of events kept for pods in flight."""
        return self._in_flight.event_counts()

    def rejections(self) -> Counter[tuple[str, str]]:
        """Return (plugin, profile) -> number of pods that the plugin rejected last. O(pods), for scraping metrics."""
        return Counter(
            (plugin, qpi.pod_info.pod.spec.scheduler_name)
            for qpi in self._pods.values()
            for plugin in qpi.unschedulable_plugins | qpi.pending_plugins
        )

    def check(self) -> None:
        """Assert that every pod is in exactly one pool and that all indexes agree. O(pods)."""
        for part in (self._active, self._backoff, self._unschedulable, self._in_flight, self._waker):
            part.check()
        held = [qpi.uid for qpi in self.pending_pods()]
        assert len(held) == len(set(held)), "a pod is in two pools"
        assert set(held) == set(self._pods), f"pools and index differ by {set(held) ^ set(self._pods)}"
        assert sum(self.counts()) == len(self._pods), f"{self.counts()} for {len(self._pods)} pods"
        flying = [qpi.uid for qpi in self._in_flight]
        assert not set(flying) & set(held), f"queued and in flight at once: {set(flying) & set(held)}"
        assert all(qpi.pool is Pool.IN_FLIGHT for qpi in self._in_flight), "a pod in flight says it is in a pool"

    def _check_always(self) -> None:
        for method in (
            self.add, self.update, self.delete, self.pop, self.pop_many, self.put_back, self.done,
            self.add_unschedulable_if_not_present, self.requeue_after_error, self.move_all_to_active_or_backoff,
            self.activate, self.flush,
        ):  # fmt: skip
            setattr(self, method.__name__, self._checked(method))

    def _checked(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call_and_check(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            self.check()
            return result

        return call_and_check


def _is_own_room(queued_event: QueuedEvent, qpi: QueuedPodInfo) -> bool:
    """Return True if the event only released room that was assumed for the pod itself: no reason to try it again."""
    event, old, _ = queued_event
    return event is ASSIGNED_POD_DELETE and isinstance(old, Pod) and old.metadata.uid == qpi.uid
