"""Keeps room for a gang that has failed for long, so that smaller pods cannot overtake it for ever.

At most one gang has a reservation: of those that have failed for longer than a bound the first by the order of the
queue. Its members are nominated to the nodes where they will have room first, in this process only. As for all
nominated pods, others of at most their priority are placed there only as far as they leave them their room, and
anywhere else as ever; pods of higher priority may take it. Nobody is evicted, nothing is assumed or written.

The nominations are lifted while the gang itself is planned, which may use any room. The reservation ends when the gang
is placed, is gone, lacks something, has other nominations since it evicts pods, or when its object changes or another
gang comes before it. All of it is in memory: after a restart gangs fail for as long again until one has a reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.clock import Clock
from kscheduler.framework.events import ASSIGNED_POD_DELETE
from kscheduler.framework.interface import Handle
from kscheduler.framework.runtime import Framework
from kscheduler.gangs.gang import Gang, GangKey
from kscheduler.gangs.gang_queue import GangQueue, Outcome
from kscheduler.gangs.planner import Plan
from kscheduler.gangs.promising_nodes import promising_nodes
from kscheduler.gangs.registry import Registry, Stage, TrackedGang
from kscheduler.gangs.room_to_come import RoomSearch, RoomToCome
from kscheduler.gangs.stand_in import StandIn
from kscheduler.gangs.topology_planner import fails_anywhere
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_info import NodeInfo

RENEWED_S = 60.0  # if its gang fails again after that, the nodes of a reservation are chosen again
RETRY_S = 1.0  # until a gang is tried again that has all its room, since members were tried in another order
S_PER_POD = 5e-6  # what a search costs for each pod on the nodes in question, whatever the machine
PAUSE = 4.0  # times the cost of a search in vain, until the next one may begin for any gang without a reservation
MOST_EXAMPLES = 8  # of members of different kinds, whose room is said to be free when a reservation ends


@dataclass(slots=True)
class Reservation:
    """Room that is kept for a gang."""

    key: GangKey
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
        self.held: Reservation | None = None
        self.after_s = after_s
        self._search = search
        self._registry = registry
        self._queue = queue
        self._profiles = profiles
        self._handle = handle
        self._nominations = handle.nominations
        self._clock = clock
        self._wake = wake
        self._ended = ended
        self._failing: dict[GangKey, float] = {}  # gangs whose latest attempt failed -> since when they fail
        self._not_before: dict[GangKey, float] = {}  # gangs for which no room will come -> when it is looked for again
        self._free_at = 0.0  # when the next search may begin
        self._freed: list[Pod] = []  # pods that look as if their nominations had just been removed

    # --- around an attempt ---

    def begin(self, key: GangKey) -> None:
        """Let a gang that is about to be planned use the room that is reserved for it."""
        if self.held is not None and self.held.key == key:
            self._lift(self.held)

    def nodes_to_watch(self, stand_in: StandIn, tracked: TrackedGang, plan: Plan) -> Sequence[NodeInfo] | None:
        """Return where ends of pods may help a gang that does not fit, whose plan is still assumed.

        None if no room is to be looked for: it has not failed for long enough, another gang comes before it, or it
        keeps the room that it has.
        """
        key, now = stand_in.gang_key, self._clock.now()
        left = self._failing.setdefault(key, now) + self.after_s - now
        if left > 0:
            self._handle.retry(stand_in.pod_info, left)
            return None
        if tracked.gang is None or tracked.gang.is_basic or not (plan.failed or plan.domains) or fails_anywhere(plan):
            return None
        held = self.held
        if held is None or held.key != key:
            if now < self._not_before.get(key, now):
                return None
            first = None if held is None else self._queue.stand_in(held.key)
            if first is not None and not self._queue.goes_before(stand_in, first):
                return None
            if now < self._free_at:
                self._handle.retry(stand_in.pod_info, self._free_at - now)
                return None
        elif self._is_up_to_date(held, tracked, stand_in, now):
            return None
        return () if plan.domains else list(promising_nodes(plan, self._profiles, self._handle.table))

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
        own = frozenset(uid for uid, each in tracked.members.items() if each.stage in (Stage.ASSUMED, Stage.BOUND))
        wall = self._handle.evictions.wall()
        found = self._search.find(members, missing, nodes, plan.domains, own, wall)
        key, now, held = stand_in.gang_key, self._clock.now(), self.held
        if found is None:
            self._not_before[key] = now + self.after_s
            rows = [row for domain in plan.domains for row in domain.rows]
            looked = sum(len(each.pods) for each in (*nodes, *map(self._handle.table.at, rows)))
            self._free_at = now + PAUSE * S_PER_POD * looked
            if held is not None and held.key == key:
                self._end(held, "released")
            return
        since = now
        if held is not None:
            if held.key == key:
                since = held.since
                self._free(held)
            else:
                self._end(held, "overtaken")
        assert tracked.gang is not None
        priority = max(queued.pod_info.priority for queued in members if queued.uid in found.nodes)
        generation = self._handle.table.static_generation
        made = self.held = Reservation(key, tracked.gang, priority, found, since, now, generation)
        for queued in members:
            node_name = found.nodes.get(queued.uid, "")
            if node_name and len(made.kinds) < MOST_EXAMPLES:
                made.kinds.setdefault(id(queued.pod_info.resources), (queued.pod_info.pod, node_name))
        if not found.awaited:
            self._handle.retry(stand_in.pod_info, RETRY_S)  # no event need come

    def finish(self, key: GangKey, outcome: Outcome | None, *, evicts: bool) -> None:
        """Take the end of an attempt: its members are placed, or wait again. `evicts`: they are nominated otherwise."""
        if outcome is Outcome.PLACED:
            self.forget(key)
            return
        held = self.held
        if held is None or held.key != key:
            return
        if outcome is None or evicts:
            self._end(held, "released")
            return
        for uid, node_name in held.nodes.items():
            queued = self._queue.get(uid)
            if queued is not None:
                self._nominations.nominate(queued.pod_info, node_name)

    # --- at any time ---

    def forget(self, key: GangKey) -> None:
        """Take that a gang does not wait any more: it is placed, or gone."""
        self._failing.pop(key, None)
        self._not_before.pop(key, None)
        if self.held is not None and self.held.key == key:
            tracked = self._registry.get(key)
            self._end(self.held, "placed" if tracked is not None and not tracked.missing else "released")

    def release(self, key: GangKey) -> None:
        """Take that a gang lacks something: it may wait on, but no room is kept for it meanwhile."""
        if self.held is not None and self.held.key == key:
            self._end(self.held, "released")

    def reconsider(self, key: GangKey) -> None:
        """Take that the object of a gang, or one of its members, may have changed."""
        if self.held is None or self.held.key != key:
            return
        tracked = self._registry.get(key)
        if tracked is None or tracked.gang != self.held.gang:
            self._end(self.held, "released")

    def wake_others(self) -> None:
        """Have pods tried again for which there was no room beside a reservation that has ended."""
        if not self._freed:
            return
        freed, self._freed = self._freed, []
        now = self._clock.now()
        for pod in freed:
            self._queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, pod, None, now, up_to_priority=pod.spec.priority or 0
            )

    def failing_s(self, key: GangKey) -> float | None:
        """Return for how many seconds a gang has failed; None if it does not."""
        since = self._failing.get(key)
        return None if since is None else self._clock.now() - since

    def reserved_pods(self) -> int:
        """Return for how many pods room is kept now."""
        return 0 if self.held is None else len(self.held.nodes)

    # --- inside ---

    def _is_up_to_date(self, held: Reservation, tracked: TrackedGang, stand_in: StandIn, now: float) -> bool:
        return (
            now - held.renewed < RENEWED_S
            and held.gang == tracked.gang
            and held.static_generation == self._handle.table.static_generation
            and held.nodes.keys() <= stand_in.flying.keys()
        )

    def _end(self, held: Reservation, how: str) -> None:
        self.held = None
        self._free(held)
        self._ended(how)

    def _free(self, held: Reservation) -> None:
        """Remove the nominations; the next turn tells others of the room."""
        self._lift(held)
        for pod, node_name in held.kinds.values():
            # As if it had left: hints ask only about pods that had a node, or were nominated to one.
            self._freed.append(replace(pod, status=replace(pod.status, nominated_node_name=node_name)))
        self._wake()

    def _lift(self, held: Reservation) -> None:
        for uid, node_name in held.nodes.items():
            if self._nominations.node_of(uid) == node_name:
                self._nominations.remove(uid)
