"""A scheduling queue in which each gang is one entry: its stand-in.

A pod that belongs to no gang is treated as in any other queue. A member that no PreEnqueue plugin gates is held by its
gang. A gang that can be tried is in one of the queue's pools; one that lacks members or its object is parked, where
nothing looks at it but its own pods' and object's events. Popping a gang takes all members that wait: they are in
flight one by one, each ends or returns by itself, and then the gang returns by `return_gang`.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import Any

from kscheduler.api.objects import Pod
from kscheduler.errors import InternalError
from kscheduler.framework.events import ASSIGNED_POD_DELETE, POP_FROM_BACKOFF_QUEUE, SCHEDULE_ATTEMPT_FAILURE
from kscheduler.framework.status import Status
from kscheduler.gangs.faces import Faces, Helpful
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.queued_groups import Incoming, QueuedGroups, queued_groups
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.stand_in import FurtherFace, GangBackoff, StandIn, is_face
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.gangs.unschedulable_gangs import UnschedulableGangs
from kscheduler.queue.active_queue import ActiveQueue, LessKey
from kscheduler.queue.backoff_queue import BackoffQueue
from kscheduler.queue.pod_info import NO_BACKOFF, NOBODY, PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.queue.requeue import Strategy
from kscheduler.queue.scheduling_queue import QueueCounts, SchedulingQueue
from kscheduler.snapshot.pod_info import PodInfo

NOTHING_CAME = Incoming(0, 0)


class Outcome(enum.Enum):
    """How a gang's attempt ended."""

    PLACED = "placed"  # its minimum is placed; members that returned are the surplus
    REJECTED = "rejected"  # it fits nowhere now
    FAULT = "fault"


class GangQueue(SchedulingQueue):
    unschedulable_type = UnschedulableGangs

    def __init__(
        self,
        less_key: LessKey,
        pre_enqueue: Callable[[PodInfo], Status | None],
        *,
        gangs: Registry,
        lane_of: Callable[[PodInfo], Lane] | None = None,
        **settings: Any,
    ) -> None:
        """Build an empty queue over a registry of gangs, which must have rules with a stand-in.

        All else as for SchedulingQueue. A gang is always in the plain lane.
        """
        self.on_parked: Callable[[GangKey], None] = lambda key: None  # called when a gang is found to lack something
        self.on_left: Callable[[GangKey], None] = lambda key: None  # called when no pod of a gang waits any more
        # Both are asked about the face of a gang: for a status that gates it now, and whether room is being made for
        # it that is not all there yet, so that after a pod has left a node its minimum would be tried in vain.
        self.gate: Callable[[PodInfo], Status | None] = lambda face: None
        self.waits_for_others: Callable[[PodInfo], bool] = lambda face: False
        self._registry = gangs
        self._gang_rules = gangs.rules
        self._holders: dict[str, StandIn] = {}  # pod uid of a member -> the gang that holds it
        self._gangs: dict[GangKey, StandIn] = {}  # of gangs that hold members, or are in flight
        self._parked: dict[GangKey, StandIn] = {}  # those of them that cannot be tried
        self._gang_was_next = False  # the last call of `pop_many` has popped a gang
        gangs.on_entries = self._regroup
        self._incoming: dict[tuple[str, str], Incoming] = {}  # pool and event -> what was added since the start
        key = _with_gangs(less_key, keeps_age=gangs.rules.keeps_age)
        super().__init__(key, pre_enqueue, lane_of=lane_of and _plain_for_gangs(lane_of), **settings)
        self._faces = Faces(gangs, sums_resizes_apart=self.release.sums_resizes_apart)
        if gangs.rules.grows_backoff:
            self._backoff_rule = GangBackoff(self._backoff_rule.initial_s, self._backoff_rule.max_s)

    # --- pods come, change and go --------------------------------------------------------------------------------

    def add(self, pod_info: PodInfo, now: float) -> None:
        uid = pod_info.uid
        if uid in self._holders or uid in self._pods or uid in self._in_flight:
            self.update(None, pod_info, now)
            return
        self._registry.set_member(pod_info.pod, Stage.QUEUED)
        super().add(pod_info, now)

    def update(self, old: Pod | None, new: PodInfo, now: float) -> None:
        uid, now = new.uid, self._at(now)
        member = self._registry.members.get(uid)
        if member is not None:
            stage = member.stage if member.stage is not Stage.KNOWN else Stage.QUEUED
        else:
            stage = Stage.IN_FLIGHT if uid in self._in_flight else Stage.QUEUED
        left, joined = self._registry.set_member(new.pod, stage)
        holder = self._holders.get(uid)
        if holder is not None and left is None:
            self._update_held(holder, new, now)
        elif holder is not None:
            self._move_over(self._release(holder, uid), new, now)
        elif uid in self._pods and (left is not None or (member is None and joined is not None)):
            queued = self._pods[uid]
            self._take(queued)
            self._move_over(queued, new, now)
        else:
            super().update(old, new, now)
        for changed in (left, joined if member is None or left is not None else None):
            if changed is not None:
                self.reconsider(changed.key, now)

    def _move_over(self, qpi: QueuedPodInfo, new: PodInfo, now: float) -> None:
        """Queue a pod that is in no pool, and by its newer version belongs to another gang than before, or to none."""
        qpi.pod_info = new
        self._place(qpi, Strategy.IMMEDIATELY, self._added_by_update, now)

    def _update_held(self, holder: StandIn, new: PodInfo, now: float) -> None:
        """Take a newer version of a member; if it may fit better, a rejected gang is tried again."""
        qpi = holder.held(new.uid)
        before, after = qpi.pod_info.pod, new.pod
        qpi.pod_info = new
        if (face := self._faces.raised(holder, new)) is not None:
            self._show(holder, face)
        if before.spec != after.spec or before.metadata.labels != after.metadata.labels:
            self._settle(holder, self._added_by_update, now, has_changed=True)

    def delete(self, uid: str) -> None:
        member = self._registry.members.get(uid)
        if member is not None and member.stage < Stage.ASSUMED:  # else the cache says when it is gone
            self._registry.remove_member(uid)
        holder = self._holders.get(uid)
        if holder is None:
            super().delete(uid)
            if member is not None:
                self.reconsider(member.tracked.key, self._now)
            return
        self._release(holder, uid).pool = Pool.GONE
        self._settle(holder, SCHEDULE_ATTEMPT_FAILURE, self._now, has_changed=True)

    def drop_bound(self, uid: str) -> None:
        self.delete(uid)

    def reconsider(self, key: GangKey, now: float) -> None:
        """Park a gang or queue it, after its object or the stage of one of its members has changed."""
        stand_in = self._gangs.get(key)
        if stand_in is None and self._gang_rules.heeds_parents:
            tracked = self._registry.get(key)
            stand_in = None if tracked is None else self._gangs.get(tracked.entry.key)
        if stand_in is not None:
            if stand_in.members and (face := self._faces.raised(stand_in, stand_in.pod_info)) is not None:
                self._show(stand_in, face)
            has_changed = self._gang_rules.retries_changed and self._asks_for_less(stand_in)
            self._settle(stand_in, self._added_by_update, self._at(now), has_changed=has_changed)

    def _asks_for_less(self, stand_in: StandIn) -> bool:
        """Return True if a gang may ask for less than in its last attempt: of another object, or of fewer pods."""
        tracked = self._registry.get(stand_in.gang_key)
        return tracked is not None and (tracked.gang is not stand_in.tried_as or tracked.missing < stand_in.missing)

    def _regroup(self, tracked: TrackedGang) -> None:
        """Let the entries hold the members of a gang, and of all below it, that are theirs now."""
        moved: list[QueuedPodInfo] = []
        left: dict[GangKey, StandIn] = {}
        for uid, member in tracked.members.items():
            holder = self._holders.get(uid)
            if holder is not None and holder.gang_key != member.tracked.entry.key:
                moved.append(self._release(holder, uid))
                left[holder.gang_key] = holder
        for holder in left.values():
            self._settle(holder, self._added_by_update, self._now, has_changed=True)
        for qpi in moved:
            self._place(qpi, Strategy.IMMEDIATELY, self._added_by_update, self._now)

    # --- one attempt ---------------------------------------------------------------------------------------------

    def pop(self, now: float, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        popped = super().pop(now, lane)
        if type(popped) is StandIn:
            self._open(popped)
        return popped

    def _pop_early(self, now: float, lane: Lane) -> QueuedPodInfo | None:
        popped = super()._pop_early(now, lane)
        if type(popped) is StandIn:
            self._count_incoming("active", POP_FROM_BACKOFF_QUEUE, popped)
        return popped

    def pop_many(self, now: float, most: int) -> list[QueuedPodInfo]:
        """Pop up to `most` next pods that belong to no gang, or one gang alone if that is next."""
        # Gangs often follow each other, and what is popped together with one has to be put back.
        popped = super().pop_many(now, 1 if self._gang_was_next else most)
        self._gang_was_next = False
        if len(self._gangs) == len(self._parked):
            return popped
        for at, qpi in enumerate(popped):
            if type(qpi) is not StandIn:
                continue
            if at:
                super().put_back(popped[at:])
                return popped[:at]
            if len(popped) > 1:
                super().put_back(popped[1:])
            self._open(qpi)
            self._gang_was_next = True
            return [qpi]
        return popped

    def _open(self, stand_in: StandIn) -> None:
        """Mark the members of a popped gang as in flight, in the order in which they are to be tried."""
        tracked = self._registry.get(stand_in.gang_key)
        stand_in.tried_as = None if tracked is None else tracked.gang
        in_order = sorted(stand_in.members.values(), key=_order_of_members)
        stand_in.flying, stand_in.members = {qpi.pod_info.uid: qpi for qpi in in_order}, {}
        for uid, qpi in stand_in.flying.items():
            del self._holders[uid]
            if qpi.initial_attempt_timestamp is None:
                qpi.initial_attempt_timestamp = stand_in.initial_attempt_timestamp
            qpi.attempts += 1
            qpi.pool = Pool.IN_FLIGHT
            qpi.unschedulable_plugins = qpi.pending_plugins = NOBODY
            self._registry.move(uid, Stage.IN_FLIGHT)
        self._in_flight.begin(in_order)

    def put_back(self, popped: Sequence[QueuedPodInfo]) -> None:
        opened = [qpi for qpi in popped if type(qpi) is StandIn]
        strays = [stray for stand_in in opened for stray in self._close(stand_in)]
        super().put_back(popped)
        for stand_in in opened:
            self._settle(stand_in, SCHEDULE_ATTEMPT_FAILURE, self._now)
        for stray in strays:
            self._place(stray, Strategy.IMMEDIATELY, SCHEDULE_ATTEMPT_FAILURE, self._now)

    def _close(self, stand_in: StandIn) -> list[QueuedPodInfo]:
        """Take the members of a gang back that was popped and not attempted, as if it had stayed in activeQ.

        Returns those that name another gang by now, or none, and are in no pool.
        """
        strays = []
        stand_in.members, stand_in.arrivals = stand_in.arrivals, {}
        for uid, qpi in stand_in.flying.items():
            news = self._in_flight.news_of(uid)
            if self._in_flight.end(uid) is None:
                continue  # its attempt has ended
            qpi.attempts -= 1
            if news is not None and news.is_deleted:
                qpi.pool = Pool.GONE
                continue
            if news is not None and news.latest is not None:
                qpi.pod_info = news.latest
            tracked = self._registry.move(uid, Stage.QUEUED)
            if tracked is None or tracked.entry.key != stand_in.gang_key:
                strays.append(qpi)
                continue
            qpi.pool = Pool.GANG
            self._holders[uid], stand_in.members[uid] = stand_in, qpi
        stand_in.flying = {}
        return strays

    def will_return(self, uid: str) -> bool:
        """Return whether a pod is in flight and has not been deleted meanwhile."""
        news = self._in_flight.news_of(uid)
        return uid in self._in_flight and (news is None or not news.is_deleted)

    def done(self, uid: str) -> None:
        super().done(uid)
        member = self._registry.members.get(uid)
        if member is not None and member.stage is Stage.IN_FLIGHT:  # it is terminating: nothing is decided about it
            self._registry.move(uid, Stage.KNOWN)

    def add_unschedulable_if_not_present(
        self, qpi: QueuedPodInfo, now: float, plugins: Set[str], pending_plugins: Set[str] = NOBODY
    ) -> Pool:
        if qpi.uid in self._holders:
            return qpi.pool
        return super().add_unschedulable_if_not_present(qpi, now, plugins, pending_plugins)

    def requeue_after_error(self, qpi: QueuedPodInfo, now: float) -> Pool:
        if type(qpi) is StandIn:
            return self.return_gang(qpi, Outcome.FAULT, now) if qpi.pool is Pool.IN_FLIGHT else qpi.pool
        if qpi.uid in self._holders:
            return qpi.pool
        return super().requeue_after_error(qpi, now)

    def _return(self, qpi: QueuedPodInfo, now: float) -> Pool:
        """Take back a pod in flight. A member joins its gang, whatever rejected it: the gang decides when to retry."""
        member = self._registry.members.get(qpi.uid)
        if member is None:
            return super()._return(qpi, now)
        now = self._at(now)
        qpi.timestamp = now
        qpi.backoff_expiration = self._backoff_rule.expiration(qpi)
        news = self._in_flight.news_of(qpi.uid)
        self._in_flight.end(qpi.uid)
        if news is not None and news.latest is not None:
            qpi.pod_info = news.latest
        self._registry.move(qpi.uid, Stage.QUEUED)
        return self._place(qpi, self._strategy_of_returned(qpi), SCHEDULE_ATTEMPT_FAILURE, now)

    def _strategy_of_returned(self, qpi: QueuedPodInfo) -> Strategy:
        """Return when a gang is tried again because of a member that was placed and could not be bound."""
        failures = qpi.consecutive_errors_count or qpi.unschedulable_count
        return Strategy.AFTER_BACKOFF if self._gang_rules.mends and failures > 1 else Strategy.IMMEDIATELY

    def return_gang(
        self,
        stand_in: StandIn,
        outcome: Outcome,
        now: float,
        plugins: Set[str] = NOBODY,
        pending_plugins: Set[str] = NOBODY,
        failed: QueuedPodInfo | None = None,
        others: Iterable[Helpful] = (),
    ) -> Pool:
        """Take back a gang in flight after all its members were assumed, ended (`done`) or returned by themselves.

        `plugins` rejected the member `failed`; an event that one of them registered may help the gang, and so may one
        that helps members of other kinds (`others`). Returns the gang's new pool; GONE if no member waits.
        """
        now = self._at(now)
        self._rescue(stand_in, now)
        has_returned = any(uid in stand_in.arrivals for uid in stand_in.flying)
        stand_in.flying, stand_in.members, stand_in.arrivals = {}, stand_in.arrivals, {}
        if not stand_in.members:
            self._in_flight.end(stand_in.uid)
            self._dismiss(stand_in)
            return Pool.GONE
        looks_like = failed.pod_info if failed is not None and failed.uid in stand_in.members else None
        stand_in.pod_info = self._faces.after_attempt(stand_in, looks_like)
        stand_in.further_faces = self._faces.further(stand_in, others) if self._gang_rules.waits_for_events else ()
        tracked = self._registry.get(stand_in.gang_key)
        stand_in.missing = 0 if tracked is None else tracked.missing
        strategy = self._account(stand_in, outcome, now, plugins, pending_plugins, has_returned=has_returned)
        self._in_flight.end(stand_in.uid)
        stand_in.pool = Pool.GONE
        self._settle(stand_in, SCHEDULE_ATTEMPT_FAILURE, now, strategy=strategy)
        return stand_in.pool

    def _strategy_after_flight(self, qpi: QueuedPodInfo) -> Strategy:
        strategy = super()._strategy_after_flight(qpi)
        if type(qpi) is not StandIn or not qpi.further_faces or strategy is not Strategy.SKIP:
            return strategy
        flying = self._in_flight.get(qpi.uid)
        events = () if flying is None else self._in_flight.missed(flying)
        decided = (self._rules.decide(face, event) for event in events for face in qpi.further_faces)
        return max(decided, default=strategy)

    def _rescue(self, stand_in: StandIn, now: float) -> None:
        """Requeue members of which the attempt was not ended, because of a bug."""
        for uid, qpi in stand_in.flying.items():
            member = self._registry.members.get(uid)
            if uid in self._in_flight and member is not None and member.stage is Stage.IN_FLIGHT:
                self.requeue_after_error(qpi, now)

    def _account(
        self,
        stand_in: StandIn,
        outcome: Outcome,
        now: float,
        plugins: Set[str],
        pending_plugins: Set[str],
        *,
        has_returned: bool,
    ) -> Strategy:
        """Count the outcome of an attempt, and return when the gang is tried again."""
        rules = self._gang_rules
        stand_in.was_flushed, stand_in.flushed_at = False, -math.inf
        stand_in.unschedulable_plugins = stand_in.pending_plugins = NOBODY
        if outcome is Outcome.PLACED:
            stand_in.unschedulable_count = stand_in.consecutive_errors_count = 0
            if rules.retries_rest_at_once or not (plugins or pending_plugins):
                stand_in.backoff_expiration = NO_BACKOFF
                if not has_returned:
                    stand_in.timestamp = now
                return Strategy.IMMEDIATELY
        stand_in.timestamp = now
        if outcome is Outcome.FAULT:
            stand_in.consecutive_errors_count += 1
        else:
            stand_in.unschedulable_count += 1
            stand_in.consecutive_errors_count = 0
            if rules.waits_for_events:
                stand_in.unschedulable_plugins = frozenset(plugins)
                stand_in.pending_plugins = frozenset(pending_plugins)
        stand_in.backoff_expiration = self._backoff_rule.expiration(stand_in)
        return self._strategy_after_flight(stand_in)

    # --- waking --------------------------------------------------------------------------------------------------

    def activate(self, uids: Iterable[str], now: float) -> int:
        return super().activate(self._entries_of(uids), now)

    def end_error_backoffs(self, uids: Iterable[str], now: float) -> int:
        return super().end_error_backoffs(self._entries_of(uids), now)

    def _entries_of(self, uids: Iterable[str]) -> Iterable[str]:
        """Replace members that their gang holds by the gang's entry in the queue."""
        holders = self._holders
        return dict.fromkeys(holders[uid].uid if uid in holders else uid for uid in uids)

    def _move(self, qpi: QueuedPodInfo, strategy: Strategy, label: str, now: float) -> bool:
        return super()._move(qpi.stand_in if type(qpi) is FurtherFace else qpi, strategy, label, now)

    # --- placing -------------------------------------------------------------------------------------------------

    def _place(self, qpi: QueuedPodInfo, strategy: Strategy, label: str, now: float) -> Pool:
        if qpi.pod_info.uid not in self._registry.members:
            if label == ASSIGNED_POD_DELETE.label and type(qpi) is StandIn and self._waits_for_all_room(qpi):
                strategy = Strategy.SKIP
            pool = super()._place(qpi, strategy, label, now)
            if type(qpi) is StandIn and pool in (Pool.BACKOFF, Pool.ERROR_BACKOFF):
                self._count_incoming("backoff", label, qpi)
            return pool
        if self._admit(qpi):
            self._join(qpi, strategy, label, now)
        else:
            self._wait(qpi, label)
        return qpi.pool

    def _waits_for_all_room(self, stand_in: StandIn) -> bool:
        """Return True if room is being made for the gang, and it needs all of it: its surplus takes it as it comes."""
        tracked = self._registry.get(stand_in.gang_key)
        return self.waits_for_others(stand_in.pod_info) and (tracked is None or tracked.missing > 0)

    def _enter_active(self, qpi: QueuedPodInfo, label: str, now: float) -> None:
        if qpi.pod_info.uid in self._registry.members:
            self._join(qpi, Strategy.IMMEDIATELY, label, now)
            return
        super()._enter_active(qpi, label, now)
        if type(qpi) is StandIn:
            self._count_incoming("active", label, qpi)

    def _wait(self, qpi: QueuedPodInfo, label: str) -> None:
        super()._wait(qpi, label)
        if type(qpi) is StandIn:
            self._count_incoming("unschedulable", label, qpi)
            return
        tracked = self._registry.set_gated(qpi.pod_info.uid, True)
        if tracked is not None:
            self._note_incoming("unschedulable", label, groups=0, pods=1)
            self.reconsider(tracked.key, self._now)

    def _count_incoming(self, queue: str, label: str, stand_in: StandIn) -> None:
        """Count the members beside the first one, for which the gang itself was counted."""
        self._observer.incoming[queue, label].value += len(stand_in.members) - 1
        self._note_incoming(queue, label, groups=1, pods=len(stand_in.members))

    def _note_incoming(self, queue: str, label: str, *, groups: int, pods: int) -> None:
        before = self._incoming.get((queue, label), NOTHING_CAME)
        self._incoming[queue, label] = Incoming(before.groups + groups, before.pods + pods)

    def _admit(self, qpi: QueuedPodInfo) -> bool:
        if type(qpi) is not StandIn:
            return super()._admit(qpi)
        gate = self.gate(qpi.pod_info)
        if gate is None:
            qpi.gated_by = None
            return True
        # It is looked at again after an event that may help a member.
        qpi.unschedulable_plugins = NOBODY.union(*(each.unschedulable_plugins for each in qpi.members.values()))
        return self._is_open(gate, qpi)

    def _join(self, qpi: QueuedPodInfo, strategy: Strategy, label: str, now: float) -> None:
        """Let its gang hold a member that is in no pool."""
        uid = qpi.pod_info.uid
        self._pods.pop(uid, None)  # it may have been gated
        tracked = self._registry.members[uid].tracked
        key = tracked.key if tracked.parent is None else tracked.entry.key
        self._registry.move(uid, Stage.QUEUED)
        self._registry.set_gated(uid, False)
        qpi.pool = Pool.GANG
        stand_in = self._gangs.get(key)
        if stand_in is None:
            stand_in = self._gangs[key] = StandIn(self._faces.new(key, qpi.pod_info), qpi.timestamp, gang_key=key)
            stand_in.backoff_expiration = qpi.backoff_expiration
        self._holders[uid] = stand_in
        if stand_in.pool is Pool.IN_FLIGHT:
            stand_in.arrivals[uid] = qpi
            return
        stand_in.members[uid] = qpi
        if (face := self._faces.raised(stand_in, qpi.pod_info)) is not None:
            self._show(stand_in, face)
        self._settle(stand_in, label, now, strategy=strategy, has_changed=True)

    def _release(self, holder: StandIn, uid: str) -> QueuedPodInfo:
        """Take a member from its gang, which the caller must settle."""
        del self._holders[uid]
        found = holder.members.pop(uid, None) or holder.arrivals.pop(uid, None)
        if found is None:
            raise InternalError(f"gang {holder.key} was to hold a pod with uid {uid}, and does not")
        return found

    def _settle(
        self,
        stand_in: StandIn,
        label: str,
        now: float,
        *,
        strategy: Strategy = Strategy.AFTER_BACKOFF,
        has_changed: bool = False,
    ) -> None:
        """Put a gang where it belongs: nowhere without members, parked if it lacks something, else into a pool.

        `has_changed`: a member came, changed or went, so that a rejected gang may fit now.
        """
        pool = stand_in.pool
        if pool is Pool.IN_FLIGHT:
            return
        tracked = self._registry.get(stand_in.gang_key)
        was_first = stand_in.is_first
        if tracked is None or not stand_in.members:
            self._withdraw(stand_in)
            self._dismiss(stand_in)
        elif tracked.lack is not None:
            self._withdraw(stand_in)
            stand_in.pool = Pool.PARKED
            self._parked[stand_in.gang_key] = stand_in
            self.on_parked(stand_in.gang_key)
        elif pool is Pool.PARKED or pool is Pool.GONE:
            self._withdraw(stand_in)
            stand_in.is_first = self._gang_rules.mends and tracked.is_broken
            if stand_in.since is None:
                stand_in.since = now
            self._place(stand_in, strategy, label, now)
        elif (self._gang_rules.mends and tracked.is_broken) is not was_first:
            self._withdraw(stand_in)
            stand_in.is_first = not was_first
            is_urgent = stand_in.is_first or pool is Pool.ACTIVE
            self._place(stand_in, Strategy.IMMEDIATELY if is_urgent else Strategy.AFTER_BACKOFF, label, now)
        elif (pool is Pool.UNSCHEDULABLE or pool is Pool.GATED) and has_changed:
            self._move(stand_in, Strategy.AFTER_BACKOFF, label, now)

    def _withdraw(self, stand_in: StandIn) -> None:
        """Take a gang from where it is."""
        if stand_in.pool is Pool.PARKED:
            del self._parked[stand_in.gang_key]
        elif stand_in.pool is not Pool.GONE:
            self._take(stand_in)
        stand_in.pool, stand_in.gated_by = Pool.GONE, None

    def _dismiss(self, stand_in: StandIn) -> None:
        stand_in.pool = Pool.GONE
        self._gangs.pop(stand_in.gang_key, None)
        self.on_left(stand_in.gang_key)

    def _show(self, stand_in: StandIn, face: PodInfo) -> None:
        """Give a gang another face, wherever it is."""
        pool = stand_in.pool
        if pool is Pool.UNSCHEDULABLE or pool is Pool.GATED:
            self._unschedulable.update(stand_in, face)
        elif pool in (Pool.ACTIVE, Pool.BACKOFF, Pool.ERROR_BACKOFF):
            heap: ActiveQueue | BackoffQueue = self._active if pool is Pool.ACTIVE else self._backoff
            heap.remove(stand_in)
            stand_in.pod_info = face
            heap.push(stand_in)
        else:
            stand_in.pod_info = face

    # --- looking -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(self.counts())

    def get(self, uid: str) -> QueuedPodInfo | None:
        holder = self._holders.get(uid)
        return super().get(uid) if holder is None else holder.held(uid)

    def stand_in(self, key: GangKey) -> StandIn | None:
        """Return the entry of a gang that holds members or is in flight."""
        return self._gangs.get(key)

    def goes_before(self, one: StandIn, other: StandIn) -> bool:
        """Return whether a gang comes before another one, were both in activeQ."""
        return self._less_key(one) < self._less_key(other)

    def counts(self) -> QueueCounts:
        """Return the number of pods in each pool. Members count where their gang is.

        Members of a parked gang, and those that came while their gang is in flight, count as gated.
        """
        active, backoff, unschedulable, gated = super().counts()
        for stand_in in self._gangs.values():
            others = len(stand_in.members) - 1
            gated += len(stand_in.arrivals)
            if stand_in.pool is Pool.ACTIVE:
                active += others
            elif stand_in.pool is Pool.UNSCHEDULABLE:
                unschedulable += others
            elif stand_in.pool is Pool.PARKED:
                gated += others + 1
            elif stand_in.pool is Pool.GATED:
                gated += others
            elif stand_in.pool is not Pool.IN_FLIGHT:
                backoff += others
        return QueueCounts(active, backoff, unschedulable, gated)

    def groups(self) -> QueuedGroups:
        """Return how many gangs are queued, with how many of the pods that `counts` returns. O(gangs + gated pods)."""
        return queued_groups(self._gangs, self._unschedulable.gated.values(), self._registry, self._incoming)

    def pending_pods(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pods that wait; members of gangs stand for their gang."""
        alone = (qpi for qpi in super().pending_pods() if type(qpi) is not StandIn)
        held = ((each.members.values(), each.arrivals.values()) for each in self._gangs.values())
        return chain(alone, *chain(*held))

    def rejections(self) -> Counter[tuple[str, str]]:
        return Counter(
            (plugin, qpi.pod_info.pod.spec.scheduler_name)
            for qpi in self.pending_pods()
            for plugin in qpi.unschedulable_plugins | qpi.pending_plugins
        )

    def check(self) -> None:
        """Assert that every pod is in exactly one place, and that the registry knows it there. O(pods)."""
        for part in (self._active, self._backoff, self._unschedulable, self._in_flight, self._waker, self._registry):
            part.check()
        entries = [qpi.uid for qpi in super().pending_pods()]
        assert len(entries) == len(set(entries)), "an entry is in two pools"
        assert set(entries) == set(self._pods), f"pools and index differ by {set(entries) ^ set(self._pods)}"
        flying = {qpi.uid for qpi in self._in_flight}
        assert not flying & (self._pods.keys() | self._holders.keys()), "a pod is queued and in flight"
        assert not self._holders.keys() & self._pods.keys(), "a member is held and in a pool"
        held = [(uid, each.uid) for each in self._gangs.values() for uid in (*each.members, *each.arrivals)]
        assert sorted(held) == sorted((uid, each.uid) for uid, each in self._holders.items()), (
            "members and index differ"
        )
        self._check_gangs()
        for uid, member in self._registry.members.items():
            if member.stage is Stage.QUEUED:
                assert (uid in self._pods) is member.is_gated, f"{member.pod.key}: gated, and not in a pool"
                assert (uid in self._holders) is not member.is_gated, f"{member.pod.key}: held by no gang"
            elif member.stage is Stage.IN_FLIGHT:
                assert uid in flying, f"{member.pod.key} is in flight for the registry only"

    def _check_gangs(self) -> None:
        for key, stand_in in self._gangs.items():
            tracked = self._registry.get(key)
            is_parked = stand_in.pool is Pool.PARKED
            assert (key in self._parked) is is_parked, f"gang {key} is in {stand_in.pool}"
            assert (stand_in.uid in self._pods) is (stand_in.pool not in (Pool.PARKED, Pool.IN_FLIGHT)), f"{key}: pool"
            if stand_in.pool is Pool.IN_FLIGHT:
                assert not stand_in.members, f"gang {key} in flight holds members"
                continue
            assert stand_in.members, f"gang {key} holds nobody"
            assert not stand_in.arrivals, f"gang {key} is not in flight, and has arrivals"
            assert not stand_in.flying, f"gang {key} is not in flight, and has pods that are"
            assert tracked is not None, f"gang {key} is not tracked"
            assert (tracked.lack is not None) is is_parked, (
                f"gang {key} lacks {tracked.lack}, and is in {stand_in.pool}"
            )
            is_first = self._gang_rules.mends and tracked.is_broken
            assert is_parked or stand_in.is_first is is_first, f"gang {key} is broken, or mended, and not ordered so"
            assert all(qpi.pool is Pool.GANG for qpi in stand_in.members.values()), f"{key}: a member says elsewhere"
        assert self._parked.keys() <= self._gangs.keys(), "a gang without members is parked"


def _with_gangs(less_key: LessKey, *, keeps_age: bool) -> LessKey:
    """Return the key by which pods and gangs are ordered together: a gang's age may count in place of its last attempt.

    A broken gang comes before all of its priority.
    """

    def key(qpi: QueuedPodInfo) -> tuple[float, ...]:
        if type(qpi) is not StandIn or not (qpi.is_first or keeps_age):
            return less_key(qpi)
        last_attempt = qpi.timestamp
        qpi.timestamp = -math.inf if qpi.is_first else last_attempt if qpi.since is None else qpi.since
        try:
            return less_key(qpi)
        finally:
            qpi.timestamp = last_attempt

    return key


def _plain_for_gangs(lane_of: Callable[[PodInfo], Lane]) -> Callable[[PodInfo], Lane]:
    """Return a function that puts gangs into the plain lane, and pods where `lane_of` does."""
    return lambda pod_info: PLAIN if is_face(pod_info) else lane_of(pod_info)


def _order_of_members(qpi: QueuedPodInfo) -> tuple[float, int, float, str]:
    """Return kube-scheduler's order: priority, the pod that was tried most often, the one that waits longest, name."""
    return (-qpi.pod_info.priority, -qpi.attempts, qpi.timestamp, qpi.pod_info.pod.metadata.name)
