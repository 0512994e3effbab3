"""Requeues waiting pods after events: decides which pods, in which order, and how many at a time.

An event concerns the pods that wait when it occurs. Most events are processed at once. An event with many hints to call
or many pods to requeue is continued later, in pieces of limited length, so that neither scheduling nor the watch stands
still; later events queue up behind it. Nothing is lost by that: if a waiting pod changes, unfinished events are decided
for it first, and a pod that is added after an event was scheduled with knowledge of it. Pods of the highest priority
come first.

If events come faster than their hints can be called, hints are skipped: all pods that the registered plugins rejected
are requeued once, as they would be without hints.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.framework.events import Registration
from kscheduler.queue.in_flight import QueuedEvent
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.requeue import RequeueRules, Strategy, grouping_of
from kscheduler.queue.unschedulable_pods import UnschedulablePods, Waited, rejectors
from kscheduler.queue.waiting_groups import Group

log = logging.getLogger(__name__)

# The bounds of a piece of work, between two calls of `go_on`. The time keeps the event loop responsive. The number of
# steps (hints called and pods moved) bounds a piece where time stands still, as in a simulation.
PIECE_S = 0.002
PIECE_STEPS = 1_000
STEPS_A_LOOK = 8  # between two reads of the clock; a step may take some 50 µs
MAX_WAKES = 1_000  # unfinished events before hints are skipped
# kube-scheduler's ticks drift: ten of them take a little longer than 300 s, so that it runs the PreEnqueue of a gated
# pod that waits too long at every tenth.
TICK_DRIFT_S = 0.001

# (pod, strategy, event label, now) -> True if the pod is active or in backoff now, False if it is gated.
Move = Callable[[QueuedPodInfo, Strategy, str, float], bool]
Found = tuple[QueuedPodInfo, Strategy]


@dataclass(slots=True, eq=False)
class Wake:
    """An event that is being processed, with its waiting pods that are still to be judged by hints or moved."""

    queued_event: QueuedEvent
    number: int  # sequence number of the event; pods whose `waits_since` is not higher are concerned
    waited: frozenset[Waited] | None  # plugins whose pods are concerned; None: all pods
    decide: Callable[[QueuedPodInfo], Strategy]  # the strategy for one pod
    steps: Iterator[Found | None]  # pods to move, and None for each hint called
    up_to_priority: float = math.inf  # pods of a higher priority are not concerned

    def concerns(self, qpi: QueuedPodInfo) -> bool:
        return (
            qpi.waits_since <= self.number
            and (qpi.pool is Pool.UNSCHEDULABLE or qpi.pool is Pool.GATED)
            and qpi.pod_info.priority <= self.up_to_priority
        )


class Waker:
    def __init__(
        self,
        pods: UnschedulablePods,
        rules: RequeueRules,
        move: Move,
        clock: Callable[[], float],
        piece_steps: int,
    ) -> None:
        self._pods = pods
        self._rules = rules
        self._move = move
        self._clock = clock
        self._piece_steps = piece_steps
        self._left_steps = piece_steps  # of the current piece, until `go_on`
        self._left_s = PIECE_S
        self.wakes: deque[Wake] = deque()  # unfinished events; the first may be half done; for reading only
        self.is_due = False  # steps were done since the last `go_on`, or are left

    def __len__(self) -> int:
        return len(self.wakes)

    def process(self, queued_event: QueuedEvent, now: float, up_to_priority: float = math.inf) -> int:
        """Process an event. Returns how many pods were requeued at once; `go_on` requeues the others."""
        if not self._pods.rejected and not self._pods.gated:
            return 0  # no pod waits, and pods added later are not concerned
        is_wildcard = queued_event.event.is_wildcard
        if (self.wakes or not self._may_work) and not is_wildcard and not self._is_wanted(queued_event, up_to_priority):
            return 0  # so that events which help nobody do not queue up

        def decide(qpi: QueuedPodInfo) -> Strategy:
            return self._rules.decide(qpi, queued_event)

        return self._start(
            Wake(
                queued_event,
                self._pods.event_number,
                None if is_wildcard else self._waited(queued_event),
                decide,
                self._everybody(queued_event) if is_wildcard else self._interested(queued_event, up_to_priority),
                up_to_priority,
            ),
            now,
        )

    def wake_overdue(self, queued_event: QueuedEvent, before: float, tick: float, now: float) -> int:
        """Requeue the pods that have waited since a moment before `before`. `tick` is when kube-scheduler does so.

        Returns how many were requeued at once; `go_on` requeues the others.
        """

        def decide(qpi: QueuedPodInfo) -> Strategy:
            return Strategy.AFTER_BACKOFF if qpi.waits_from < before else Strategy.SKIP

        number = self._pods.event_number
        # If hints are skipped meanwhile, this wake is dropped: the next look for overdue pods finds the rest.
        return self._start(Wake(queued_event, number, frozenset(), decide, self._overdue(before, tick, number)), now)

    def go_on(self, now: float) -> int:
        """Continue with unfinished events for one limited piece of work. Returns how many pods were requeued."""
        self._left_steps, self._left_s = self._piece_steps, PIECE_S
        woken = 0
        while self.wakes and self._may_work:
            woken += self._advance(self.wakes[0], now)
            if self._may_work:
                self.wakes.popleft()
        self.is_due = bool(self.wakes)
        return woken

    @property
    def _may_work(self) -> bool:
        return self._left_steps > 0 and self._left_s > 0

    def overtake(self, qpi: QueuedPodInfo) -> tuple[Strategy, str]:
        """Decide all unfinished events for one pod now.

        Returns the strategy and the label of the event that decided it.
        """
        best, label = Strategy.SKIP, ""
        for wake in self.wakes:
            if best is not Strategy.IMMEDIATELY and wake.concerns(qpi) and (found := wake.decide(qpi)) > best:
                best, label = found, wake.queued_event.event.label
        return best, label

    def _start(self, wake: Wake, now: float) -> int:
        woken = 0
        self.is_due = True
        if not self.wakes and self._may_work:
            woken = self._advance(wake, now)
            if self._may_work:
                return woken
        self.wakes.append(wake)
        if len(self.wakes) > MAX_WAKES:
            self._give_up_hints()
        return woken

    def _advance(self, wake: Wake, now: float) -> int:
        """Spend the rest of the current piece of work on this event. Returns how many pods were requeued.

        If some of the piece is left afterwards, the event is finished.
        """
        woken = 0
        until = self._clock() + self._left_s
        for found in wake.steps:
            self._left_steps -= 1
            if found is not None and found[1] is not Strategy.SKIP and wake.concerns(found[0]):
                woken += self._move(*found, wake.queued_event.event.label, now)
            if self._left_steps <= 0 or (self._left_steps % STEPS_A_LOOK == 0 and self._clock() >= until):
                break
        self._left_s = until - self._clock()
        return woken

    def _give_up_hints(self) -> None:
        """Replace all unfinished events by one that requeues the pods their plugins rejected, without calling hints."""
        latest = self.wakes[-1].queued_event
        waited = self._union()
        log.warning(
            "events come faster than queueing hints can be asked; waking all pods of the plugins concerned",
            extra={"events": len(self.wakes), "event": latest.event.label},
        )

        def decide(qpi: QueuedPodInfo) -> Strategy:
            return self._without_hints(qpi, waited)

        self.wakes.clear()
        self.wakes.append(Wake(latest, self._pods.event_number, waited, decide, self._each(decide)))

    def _union(self) -> frozenset[Waited] | None:
        found: frozenset[Waited] = frozenset()
        for wake in self.wakes:
            if wake.waited is None:
                return None
            found |= wake.waited
        return found

    def _without_hints(self, qpi: QueuedPodInfo, waited: frozenset[Waited] | None) -> Strategy:
        if waited is None:
            return Strategy.AFTER_BACKOFF
        profile = self._rules.profile_of(qpi)
        plugins = {qpi.gated_by} if qpi.gated_by is not None else rejectors(qpi)
        meant = {plugin for plugin in plugins if plugin is not None and (profile, plugin) in waited}
        if meant & qpi.pending_plugins:
            return Strategy.IMMEDIATELY
        return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP

    # --- steps: pods to move, and None for each hint called -----------------------------------------------------------

    def _waited(self, queued_event: QueuedEvent) -> frozenset[Waited]:
        interested = self._rules.interested(queued_event.event)
        return frozenset((profile, plugin) for profile, plugins in interested.items() for plugin in plugins)

    def _is_wanted(self, queued_event: QueuedEvent, up_to_priority: float) -> bool:
        """Return False if no waiting pod can be helped by the event, without calling a hint."""
        for profile, plugins in self._rules.interested(queued_event.event).items():
            for plugin, registrations in plugins.items():
                if self._pods.has_ungrouped(profile, plugin):
                    return True
                for registration in registrations:
                    for groups in self._pods.all_groups(profile, plugin, grouping_of(registration)):
                        if next(groups.find(queued_event.old, queued_event.new, up_to_priority), None) is not None:
                            return True
        return False

    def _interested(self, queued_event: QueuedEvent, up_to_priority: float) -> Iterator[Found | None]:
        for profile, plugins in self._rules.interested(queued_event.event).items():
            for plugin, registrations in plugins.items():
                # For a gated pod all plugins that rejected or gate it decide; on the move PreEnqueue runs again.
                for qpi in self._pods.ungrouped(profile, plugin):
                    yield qpi, self._rules.decide(qpi, queued_event)
                for registration in registrations:
                    for groups in self._pods.all_groups(profile, plugin, grouping_of(registration)):
                        found = groups.find(queued_event.old, queued_event.new, up_to_priority)
                        yield from self._wanted(plugin, registration, queued_event, found)

    def _wanted(
        self, plugin: str, registration: Registration, queued_event: QueuedEvent, groups: Iterator[Group]
    ) -> Iterator[Found | None]:
        """Yield those pods of these groups, all rejected by the plugin, that the registration wants to be queued."""
        subject = _subject(queued_event)
        for group in groups:
            itself = group.members.get(subject)
            if itself is not None:  # the event is about this pod: another pod's answer does not hold for it
                yield itself, self._rules.decide(itself, queued_event)
            speaker = group.apart_from(subject)
            yield None
            if speaker is not None and self._rules.asks(plugin, registration, speaker, queued_event):
                members = list(group.members.values())
                yield from ((qpi, self._wanted_by(plugin, qpi, queued_event)) for qpi in members if qpi.uid != subject)

    def _wanted_by(self, plugin: str, qpi: QueuedPodInfo, queued_event: QueuedEvent) -> Strategy:
        if not qpi.pending_plugins:
            return Strategy.AFTER_BACKOFF
        if plugin in qpi.pending_plugins:
            return Strategy.IMMEDIATELY
        return max(Strategy.AFTER_BACKOFF, self._rules.decide(qpi, queued_event))  # a pending one may want more

    def _everybody(self, queued_event: QueuedEvent) -> Iterator[Found | None]:
        return self._each(lambda qpi: self._rules.decide(qpi, queued_event), only_timed_gates=True)

    def _each(
        self, decide: Callable[[QueuedPodInfo], Strategy], *, only_timed_gates: bool = False
    ) -> Iterator[Found | None]:
        for qpi in self._pods.listeners():
            yield qpi, decide(qpi)
        for qpi in list(self._timed_gated() if only_timed_gates else self._pods.gated.values()):
            yield qpi, decide(qpi)

    def _timed_gated(self) -> Iterator[QueuedPodInfo]:
        """Yield the gated pods for which wildcard events, such as timeouts, run PreEnqueue again.

        In a release where these are not all, they are those whose plugin registered the wildcard event: rarely any.
        """
        if self._rules.release.wakes_gated_by_wildcard:
            yield from self._pods.gated.values()
            return
        for profile, gate in self._rules.wildcard_gates:
            yield from self._pods.gated_by(profile, gate)

    def gated_from(self) -> float:
        """Return a moment before which no gated pod began to wait for a timeout; infinite if none waits for one.

        Call it only if there are gated pods.
        """
        if not self._rules.release.wakes_gated_by_wildcard:
            return min((qpi.waits_from for qpi in self._timed_gated()), default=math.inf)
        return self._pods.gated_from

    def _overdue(self, before: float, tick: float, number: int) -> Iterator[Found | None]:
        for qpi in list(self._pods.rejected.values()):  # longest waiting first
            if qpi.waits_since > number or qpi.pool is not Pool.UNSCHEDULABLE:
                continue  # it was updated or moved; it may even have returned
            if qpi.waits_from >= before:
                break
            self._mark_flushed(qpi, tick)
            yield qpi, Strategy.AFTER_BACKOFF
        if self._pods.gated and self.gated_from() < before:
            yield from self._overdue_gated(before, tick, number)

    def _overdue_gated(self, before: float, tick: float, number: int) -> Iterator[Found | None]:
        """Yield the gated pods that wait too long, and None for each other one: there may be many of them."""
        for qpi in list(self._timed_gated()):
            if qpi.waits_since > number or qpi.pool is not Pool.GATED or qpi.waits_from >= before:
                yield None
                continue
            self._mark_flushed(qpi, tick)
            yield qpi, Strategy.AFTER_BACKOFF
        self._pods.look_for_gated()

    def _mark_flushed(self, qpi: QueuedPodInfo, tick: float) -> None:
        qpi.was_flushed = True
        if self._rules.release.wakes_gated_by_wildcard:
            qpi.flushed_at = tick - TICK_DRIFT_S  # if it is gated now, it waits from here

    def check(self) -> None:
        for wake in self.wakes:
            assert wake.number <= self._pods.event_number, "a wake is meant for pods that are still to come"
        numbers = [wake.number for wake in self.wakes]
        assert numbers == sorted(numbers), "events are not dealt with in the order they came"
        assert len(self.wakes) <= MAX_WAKES, f"{len(self.wakes)} events are waiting"


def _subject(queued_event: QueuedEvent) -> str:
    """Return the uid of the pod that an event is about; "" if it is about another object."""
    changed = queued_event.old if queued_event.new is None else queued_event.new
    return changed.metadata.uid if isinstance(changed, Pod) else ""
