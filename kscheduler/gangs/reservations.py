"""Keeps room for a gang that has failed for long, so that smaller pods cannot overtake it for ever.

At most one gang has a reservation, and with queues with shares one gang of each queue: of those that have failed for
longer than a bound the first by the order of the queue. Its members are nominated to the nodes where they will have
room first, in this process only. As for all nominated pods, others of at most their priority are placed there only as
far as they leave them their room, and anywhere else as ever; pods of higher priority may take it, unless they are of
another queue with shares. Nobody is evicted, nothing is assumed or written.

The nominations are lifted while the gang itself is planned, which may use any room but that reserved for others. The
reservation ends when the gang is placed, is gone, lacks something, has other nominations since it evicts pods, or when
its object changes or another gang of its queue comes before it. All of it is in memory: after a restart gangs fail for
as long again until one has a reservation.

Two gangs cannot wait for each other's room. When nodes are chosen for one, those of the others are counted, so that all
of them fit together once the pods have ended that are waited for. That may be so no longer when the cluster changes:
therefore a gang whose awaited pods have ended, or that has waited for a minute, leaves room only to gangs with an older
reservation, so that the oldest one waits for no other. Then it chooses again, or loses its reservation if there is no
room beside the others.

A queue with shares keeps room for a gang only within what it may use. Its pods that have overtaken the gang do not
count for that, since they are what the gang is to be protected from (`gangs/entitlement.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.clock import Clock
from kscheduler.config.queues import QUEUES
from kscheduler.framework.events import ASSIGNED_POD_DELETE
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.gangs.domains import Domain
from kscheduler.gangs.entitlement import Entitlement
from kscheduler.gangs.gang import Gang, GangKey
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.planner import Plan
from kscheduler.gangs.promising_nodes import promising_nodes
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.room_to_come import RoomSearch, RoomToCome
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.topology_planner import fails_anywhere
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.pod_demand import NO_QUEUE
from kscheduler.snapshot.node_info import NodeInfo

RENEWED_S = 60.0  # if its gang fails again after that, the nodes of a reservation are chosen again
RETRY_S = 1.0  # until a gang is tried again that has all its room, since members were tried in another order
S_PER_POD = 5e-6  # what a search costs for each pod on the nodes in question, whatever the machine
PAUSE = 4.0  # times the cost of a search in vain, until the next one may begin for any gang without a reservation
MOST_EXAMPLES = 8  # of members of different kinds, whose room is reported as free when a reservation ends


@dataclass(slots=True)
class Reservation:
    """Room that is kept for a gang."""

    key: GangKey
    queue: str  # with shares, that all its pods were in; "" for none
    gang: Gang  # its object when the reservation was made
    priority: int  # pods above it may take the room
    room: RoomToCome
    since: float  # on the scheduler's clock
    renewed: float  # when the nodes were last chosen
    static_generation: int  # of the node table then
    kinds: dict[int, tuple[Pod, str]] = field(default_factory=dict)  # some members, of different kinds, with their node

    @property
    def nodes(self) -> Mapping[str, str]:
        """Pod uid of a member -> node."""
        return self.room.nodes

    def keeps_out(self, priority: int, queue: str) -> bool:
        """Return whether a pod of this priority, in this queue with shares, must leave the gang its room.

        Priorities are compared within a queue, and with pods that are in none.
        """
        return priority <= self.priority or (queue != self.queue and NO_QUEUE not in (queue, self.queue))


class Reservations:
    """`ended(how)` is called when a reservation ends: placed, overtaken or released."""

    def __init__(
        self,
        search: RoomSearch,
        registry: Registry,
        queue: GangQueue,
        profiles: Mapping[str, Framework],
        handle: Handle,
        clock: Clock,
        *,
        after_s: float,
        wake: Callable[[], object],
        ended: Callable[[str], object],
    ) -> None:
        self.held: dict[GangKey, Reservation] = {}  # the oldest first; changed in this class only
        self.after_s = after_s
        self._search = search
        self._registry = registry
        self._queue = queue
        self._profiles = profiles
        self._handle = handle
        self._queues = handle.share_queues  # None: there are no queues with shares
        self._of_queue: dict[str, Reservation] = {}  # name of a queue with shares, or "" -> what is held for it
        self._nominations = handle.nominations
        self._clock = clock
        self._wake = wake
        self._ended = ended
        self._failing: dict[GangKey, float] = {}  # gangs whose latest attempt failed -> since when they fail
        self._not_before: dict[GangKey, float] = {}  # gangs for which no room will come -> when it is looked for again
        self._free_at = 0.0  # when the next search may begin
        self._lifted: list[Reservation] = []  # for the gang that is planned, beside its own
        self._freed: list[Pod] = []  # pods that look as if their nominations had just been removed

    # --- around an attempt ---

    def begin(self, key: GangKey) -> None:
        """Let a gang that is about to be planned use the room that is reserved for it."""
        own = self.held.get(key)
        if own is None:
            return
        self._lift(own)
        if len(self.held) > 1 and self._should_have_room(own):
            reservations = list(self.held.values())
            for held in reservations[reservations.index(own) + 1 :]:
                self._lift(held)
                self._lifted.append(held)

    def nodes_to_watch(self, stand_in: StandIn, tracked: TrackedGang, plan: Plan) -> Sequence[NodeInfo] | None:
        """Return where ends of pods may help a gang that does not fit, whose plan is still assumed.

        None if no room is to be looked for: it has not failed for long enough, another gang of its queue comes before
        it, or it keeps the room that it has.
        """
        key, now = stand_in.gang_key, self._clock.now()
        left = self._failing.setdefault(key, now) + self.after_s - now
        if left > 0:
            self._handle.retry(stand_in.pod_info, left)
            return None
        if tracked.gang is None or tracked.gang.is_basic or not (plan.failed or plan.domains):
            return None
        queue, held = self._queue_of(stand_in.flying.values()), self.held.get(key)
        if held is not None and held.queue != queue:
            self._end(held, "released")
            held = None
        is_kept = held is not None and self._is_up_to_date(held, tracked, stand_in, now)
        if fails_anywhere(plan) and not (queue and _is_refused_by_queues(plan)):
            if held is not None and not is_kept:
                self._end(held, "released")
            return None
        if is_kept:
            return None
        if held is None:
            if now < self._not_before.get(key, now):
                return None
            rival = self._of_queue.get(queue)
            first = None if rival is None else self._queue.stand_in(rival.key)
            if first is not None and not self._queue.goes_before(stand_in, first):
                return None
            if now < self._free_at:
                self._handle.retry(stand_in.pod_info, self._free_at - now)
                return None
        if plan.domains:
            return ()
        counting = QUEUES if queue else ""
        return list(promising_nodes(plan, self._profiles, self._handle.table, counting=counting))

    def look(
        self,
        stand_in: StandIn,
        tracked: TrackedGang,
        members: Sequence[QueuedPodInfo],
        plan: Plan,
        missing: int,
        nodes: Sequence[NodeInfo],
    ) -> None:
        """Reserve the room that a gang will have first. Its plan is undone; `nodes`: where ends of pods may help."""
        key, now, held = stand_in.gang_key, self._clock.now(), self.held.get(stand_in.gang_key)
        queue = self._queue_of(members)
        self._restore()
        # 1. Where will the gang have room first?
        if held is not None and held.queue != queue:
            self._end(held, "released")
            held = None
        found = self._find(tracked, members, plan.domains, missing, nodes)
        if found is None:
            self._not_before[key] = now + self.after_s
            rows = [row for domain in plan.domains for row in domain.rows]
            looked = sum(len(each.pods) for each in (*nodes, *map(self._handle.table.at, rows)))
            looked += 0 if self._queues is None else self._queues.counted_pods
            self._free_at = now + PAUSE * S_PER_POD * looked
            if held is not None:
                self._end(held, "released")
            return
        # 2. Its reservation takes the place of an earlier one, its own or another's in its queue.
        since = now
        if held is not None:
            since = held.since
            self._free(held)
        else:
            rival = self._of_queue.get(queue)
            if rival is not None:
                self._end(rival, "overtaken")
        # 3. The room is kept from now on.
        assert tracked.gang is not None
        priority = max(queued.pod_info.priority for queued in members if queued.uid in found.nodes)
        generation = self._handle.table.static_generation
        made = Reservation(key, queue, tracked.gang, priority, found, since, now, generation)
        self.held[key] = self._of_queue[queue] = made
        for queued in members:
            node_name = found.nodes.get(queued.uid, "")
            if node_name and len(made.kinds) < MOST_EXAMPLES:
                made.kinds.setdefault(id(queued.pod_info.resources), (queued.pod_info.pod, node_name))
        # No event need come: if nothing is awaited, or if reservations have come to exclude each other.
        self._handle.retry(stand_in.pod_info, RENEWED_S if found.awaited else RETRY_S)

    def finish(self, key: GangKey, outcome: Outcome | None, *, evicts: bool) -> None:
        """Take the end of an attempt: its members are placed, or wait again. `evicts`: they are nominated otherwise."""
        self._restore()
        if outcome is Outcome.PLACED:
            self.forget(key)
            return
        held = self.held.get(key)
        if held is None:
            return
        if outcome is None or evicts:
            self._end(held, "released")
            return
        self._nominate(held)

    # --- at any time ---

    def forget(self, key: GangKey) -> None:
        """Take that a gang does not wait any more: it is placed, or gone."""
        self._failing.pop(key, None)
        self._not_before.pop(key, None)
        held = self.held.get(key)
        if held is not None:
            tracked = self._registry.get(key)
            self._end(held, "placed" if tracked is not None and not tracked.missing else "released")

    def release(self, key: GangKey) -> None:
        """Take that a gang lacks something: it may wait on, but no room is kept for it meanwhile."""
        held = self.held.get(key)
        if held is not None:
            self._end(held, "released")

    def reconsider(self, key: GangKey) -> None:
        """Take that the object of a gang, or one of its members, may have changed."""
        held = self.held.get(key)
        if held is None:
            return
        tracked = self._registry.get(key)
        if tracked is None or tracked.gang != held.gang:
            self._end(held, "released")

    def wake_others(self) -> None:
        """Have pods tried again for which there was no room beside a reservation that has ended."""
        if not self._freed:
            return
        freed, self._freed = self._freed, []
        now = self._clock.now()
        for pod in freed:
            # Room of a queue with shares is kept from more important pods of other queues as well.
            priority = pod.spec.priority or 0 if self._queues is None else None
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None, now, up_to_priority=priority)

    def failing_s(self, key: GangKey) -> float | None:
        """Return for how many seconds a gang has failed; None if it does not."""
        since = self._failing.get(key)
        return None if since is None else self._clock.now() - since

    def queue_of(self, pod: Pod) -> str:
        """Return the queue with shares that a pod names; "" for none, or if there are no such queues."""
        return NO_QUEUE if self._queues is None else self._queues.demands.queue_of(pod)

    def reserved_pods(self) -> int:
        """Return for how many pods room is kept now."""
        return sum(len(held.nodes) for held in self.held.values())

    # --- inside ---

    def _queue_of(self, members: Iterable[QueuedPodInfo]) -> str:
        """Return the queue with shares of a gang's pods; "" for none. If they are in several, the first one's."""
        first = next(iter(members), None)
        return NO_QUEUE if first is None else self.queue_of(first.pod_info.pod)

    def _find(
        self,
        tracked: TrackedGang,
        members: Sequence[QueuedPodInfo],
        domains: Sequence[Domain],
        missing: int,
        nodes: Sequence[NodeInfo],
    ) -> RoomToCome | None:
        """Return the room that a gang will have first; None if there is none that it may keep."""
        own = frozenset(uid for uid, each in tracked.members.items() if each.stage in (Stage.ASSUMED, Stage.BOUND))
        wall = self._handle.evictions.wall()
        if self._queues is None or not self._queue_of(members):
            return self._search.find(members, missing, nodes, domains, own, wall)
        if not nodes and not domains:
            return None
        entitlement = Entitlement.of(self._queues, members, missing, own)
        if entitlement is None:
            return None
        found = self._search.find(members, missing, nodes, domains, own, wall, entitlement.without_overtakers)
        return found if found is not None and entitlement.covers(found) else None

    def _is_up_to_date(self, held: Reservation, tracked: TrackedGang, stand_in: StandIn, now: float) -> bool:
        return (
            now - held.renewed < RENEWED_S
            and held.gang == tracked.gang
            and held.static_generation == self._handle.table.static_generation
            and held.nodes.keys() <= stand_in.flying.keys()
        )

    def _end(self, held: Reservation, how: str) -> None:
        del self.held[held.key]
        del self._of_queue[held.queue]
        self._free(held)
        self._ended(how)

    def _free(self, held: Reservation) -> None:
        """Remove the nominations; the next turn wakes others for the room."""
        self._lift(held)
        for pod, node_name in held.kinds.values():
            # As if it had left: hints ask only about pods that had a node, or were nominated to one.
            self._freed.append(replace(pod, status=replace(pod.status, nominated_node_name=node_name)))
        self._wake()

    def _should_have_room(self, held: Reservation) -> bool:
        """Return whether the room should be free by now, or its gang has waited so long that it may be elsewhere."""
        if self._clock.now() - held.renewed >= RENEWED_S:
            return True
        return not any(self._search.is_on_node(uid) for uid in held.room.awaited_uids)

    def _restore(self) -> None:
        """Nominate members of younger reservations again, as far as these have not ended."""
        for held in self._lifted:
            if self.held.get(held.key) is held:
                self._nominate(held)
        self._lifted.clear()

    def _nominate(self, held: Reservation) -> None:
        for uid, node_name in held.nodes.items():
            queued = self._queue.get(uid)
            if queued is not None:
                self._nominations.nominate(queued.pod_info, node_name)

    def _lift(self, held: Reservation) -> None:
        for uid, node_name in held.nodes.items():
            if self._nominations.node_of(uid) == node_name:
                self._nominations.remove(uid)


def _is_refused_by_queues(plan: Plan) -> bool:
    """Return whether all members that failed were rejected since their queue with shares has no room."""
    return all(each.rejection.diagnosis.unschedulable_plugins == {QUEUES} for each in plan.failed)
