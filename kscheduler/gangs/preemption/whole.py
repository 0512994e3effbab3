"""Preemption by a gang: the cheapest evictions after which its whole minimum has nodes, or none at all.

Members above the minimum preempt together, once the minimum is placed: for as many of them as there can be room. Each
of them is placed when its own room is free.

All is tried on the node table, within one attempt of the gang: (1) pods that may be evicted leave, by their priority or
by the rules of queues with shares (`ways`), the cheapest units first and ever more, until a plan places the minimum;
(2) of the last step only as many leave as are needed; (3) each unit comes back beside which all planned members still
fit, in the order in which DefaultPreemption spares victims; (4) a gang that thereby lost more than its surplus goes
whole. Only then is anybody evicted, and each planned member is nominated to its node, so that nobody of lower priority
takes the room meanwhile.

What bounds the cost: the number of plans grows with the logarithm of the number of units, of which at most MOST_UNITS
are considered, and no more than MOST_CHECKS times is a member checked on a node. When these are used up, the units
that have not come back by then are evicted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.config.queues import QUEUES
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.plugins.dynamicresources.plugin import NAME as DYNAMIC_RESOURCES
from kscheduler.framework.preemption.evaluator import NEVER
from kscheduler.framework.preemption.pace import Pace
from kscheduler.framework.runtime import Framework
from kscheduler.gangs.domains import Domain
from kscheduler.gangs.gang import Disruption, GangKey
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.preemption.away import Away
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.fitting import Fitting
from kscheduler.gangs.preemption.share_ways import ByShares
from kscheduler.gangs.preemption.units import Order, Residents, Unit, pods_of
from kscheduler.gangs.preemption.ways import ByPriority, Preemptor, Rules, Way, waits_for_room
from kscheduler.gangs.promising_nodes import promising_nodes
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.texts import NOT_YET, POLICY_NEVER, STILL_EVICTING, evicting
from kscheduler.gangs.tracked_gang import TrackedGang
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)

MOST_UNITS = 16_384  # the cheapest ones, that may leave
MOST_MOVES = 100_000  # of pods from and to nodes, after which no further domain of nodes is searched
MOST_CHECKS = 5_000  # of a member on its node, while units come back
FEW_STEPS = 4  # of bisection, each with a plan
RETRY_S = 1.0  # until a gang is tried again that fits without evictions, since members were tried in another order
# What a search costs, in seconds, as far as it does not depend on the machine.
S_PER_MOVE, S_PER_PLAN, S_PER_MEMBER = 20e-6, 1e-3, 20e-6
MOST_KEPT = 20_000  # gangs of which it is known that their search was in vain


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a gang's preemption."""

    text: str = ""  # for the messages of its members; "": it was not tried
    nominations: Mapping[str, str] = field(default_factory=dict)  # pod uid of a member -> node
    evicts: bool = False  # room is being made on these nodes


NOT_TRIED = Answer()


@dataclass(frozen=True, slots=True)
class _Found:
    units: Sequence[Unit]  # the most important first
    nominations: Mapping[str, str]
    uses_ending: bool  # pods that are terminating anyway were away as well


_Place = tuple[Iterable[NodeInfo], Domain | None]  # nodes to search; the domain of which they are all, or None


@dataclass(slots=True)
class _Effort:
    """What the searches for one gang's victims cost."""

    found_anybody: bool = False  # who may be evicted
    moves: int = 0  # of pods from and to nodes
    plans: int = 0


class WholePreemption:
    def __init__(
        self,
        cache: Cache,
        registry: Registry,
        planner: Planner,
        profiles: Mapping[str, Framework],
        handle: Handle,
        executor: GangExecutor,
    ) -> None:
        self._cache = cache
        self._registry = registry
        self._planner = planner
        self._profiles = profiles
        self._handle = handle
        self._executor = executor
        self._by_priority = ByPriority(handle.table)
        self._by_shares = None if handle.share_queues is None else ByShares(handle, handle.share_queues)
        self._pace = Pace()
        self._in_vain: set[str] = set()  # uids of the faces of gangs whose latest search was in vain

    def may_begin(self, tracked: TrackedGang, face: PodInfo, members: Sequence[QueuedPodInfo]) -> bool:
        """Return True if there may be pods to evict for one of the members, and the gang waits for no victims."""
        rules = self._rules_of(members)
        if rules is None or self._never_preempts(tracked, members) or self.still_evicts(tracked, face, members):
            return False
        return bool(rules.ways(Preemptor(tracked.key, face, members, 1, _priority_of(tracked, members))))

    def still_evicts(self, tracked: TrackedGang, face: PodInfo, members: Sequence[QueuedPodInfo]) -> bool:
        """Return True if room is being made for some of the members: until it is there, they keep their nominations."""
        rules = self._rules_of(members)
        if rules is None:
            return False
        preemptor = Preemptor(tracked.key, face, members, 1, _priority_of(tracked, members))
        return self._executor.is_running(face.uid) or self._waits_for_room(rules, preemptor)

    def look(
        self,
        tracked: TrackedGang,
        face: PodInfo,
        members: Sequence[QueuedPodInfo],
        plan: Plan,
        missing: int,
        *,
        wanted: int = 0,
    ) -> Answer:
        """Evict pods if that makes room for the gang; `plan`, which places too few of the members, is undone.

        `face`: the gang's pod in the queue. `missing`: the number of members that must get nodes. `wanted`: so many are
        to get nodes if possible; if it is not above `missing`, only those.
        """
        queues = self._handle.share_queues
        if queues is not None and queues.moves.places:
            # No event need come when those have got nodes for which places are kept.
            self._handle.retry(face, queues.moves.expected_s(self._handle.evictions.wall()))
        try:
            # 1. May the gang preempt, and now?
            rules = self._rules_of(members)
            if rules is None:
                return NOT_TRIED
            now = self._handle.evictions.wall()
            preemptor = Preemptor(tracked.key, face, members, missing, _priority_of(tracked, members))
            refusal = self._refusal(rules, tracked, preemptor, plan, now)
            if refusal is not None:
                return refusal
            # 2. Where would room help? The plan says so until it is undone.
            places = self._places(rules, plan)
            would_fit = len(plan.placed)
        finally:
            plan.placed.undo()
        # 3. Who would have to leave? The ways of the rules are tried in order.
        self._handle.evictions.attempted()
        for queued in members:
            self._handle.nominations.remove(queued.uid)
        effort = _Effort()
        preemptor = replace(preemptor, missing=max(wanted, missing))
        for size in rules.sizes(preemptor, missing):
            asking = replace(preemptor, missing=size)
            for way in rules.ways(asking):
                found = self._search(way, asking, missing, places, max(size - would_fit, 1), now, effort)
                if found is not None:
                    self._in_vain.discard(face.uid)
                    return self._carry_out(found, face)
                if way.wait_s is not None:
                    self._handle.retry(face, way.wait_s)
        # 4. None makes room.
        if not effort.found_anybody:
            return Answer(rules.nobody)
        self._note_in_vain(face, now, effort, len(members))
        return Answer(rules.in_vain)

    def _refusal(
        self, rules: Rules, tracked: TrackedGang, preemptor: Preemptor, plan: Plan, now: float
    ) -> Answer | None:
        """Return why the gang may not preempt, or not yet; None if it may."""
        face, members = preemptor.face, preemptor.members
        if self._never_preempts(tracked, members):
            return Answer(POLICY_NEVER)
        if self._executor.is_running(face.uid) or self._waits_for_room(rules, preemptor):
            return Answer(STILL_EVICTING, self._nominations_of(members), evicts=True)
        if not rules.ways(preemptor, [placed.queued.uid for placed in plan.placed]):
            return Answer(rules.nobody)
        if self._pace.wait_s(now):
            self._handle.retry(face, self._pace.next_turn_s(face.uid, now))
            text = rules.in_vain if face.uid in self._in_vain else NOT_YET
            return Answer(text, self._nominations_of(members))
        return None

    def _places(self, rules: Rules, plan: Plan) -> Sequence[_Place]:
        """Return where room would help the gang: in each domain that the plan was confined to, else on some nodes."""
        if plan.domains:
            return [(self._nodes_of(domain), domain) for domain in plan.domains]
        counting = "" if rules is self._by_priority else QUEUES
        return [(promising_nodes(plan, self._profiles, self._handle.table, counting=counting), None)]

    def _search(
        self,
        way: Way,
        preemptor: Preemptor,
        least: int,
        places: Sequence[_Place],
        step: int,
        now: float,
        effort: _Effort,
    ) -> _Found | None:
        """Return the victims that make room in one of the places for all that are missing, else for at least `least`.

        None if there are none.
        """
        members, missing = preemptor.members, preemptor.missing
        residents = Residents(self._cache, self._registry, self.is_leaving, now)
        order = Order(self._handle.budgets, now, stops_at_overdrawn=self._handle.release.stops_at_overdrawn_budget)
        queues = self._handle.share_queues
        for in_place, domain in places:
            units = residents.units(in_place, way.below, preemptor.key, way.exposes)
            if not units:
                continue
            effort.found_anybody = True
            # Before anybody is away: rules go by what queues use.
            leaving = way.leaving(units, order)[:MOST_UNITS]
            with Away(self._cache, None if queues is None else Uncounted(queues)) as away:
                within = None if domain is None else domain.confinement
                search = _Search(self._registry, self._planner, residents, order, away, within)
                if domain is None or self._may_hold(domain, leaving, members, least, away):
                    found = search.run(leaving, members, missing, least, step)
                    effort.plans += search.plans
                else:
                    found = None
            effort.moves += away.moves
            # Gangs that go whole may have been left out before.
            if found is not None and way.may_take(found.units, order):
                return found
            if effort.moves > MOST_MOVES:
                break
        return None

    def _nodes_of(self, domain: Domain) -> list[NodeInfo]:
        return [self._handle.table.at(row) for row in domain.rows]

    def _may_hold(
        self, domain: Domain, units: Sequence[Unit], members: Sequence[QueuedPodInfo], missing: int, away: Away
    ) -> bool:
        """Return False if a domain has too little room even without all units: then no plan need be made there."""
        away.take(pods_of(units))
        room = self._planner.most_that_fit(members, domain.confinement)
        away.put_back(pods_of(units))
        return not away.is_torn and room >= missing

    def _note_in_vain(self, face: PodInfo, now: float, effort: _Effort, members: int) -> None:
        cost_s = effort.moves * S_PER_MOVE + effort.plans * (S_PER_PLAN + members * S_PER_MEMBER)
        self._pace.was_in_vain(now, cost_s)
        if len(self._in_vain) > MOST_KEPT:
            self._in_vain.clear()
        self._in_vain.add(face.uid)

    # --- may it? ---

    def _rules_of(self, members: Sequence[QueuedPodInfo]) -> Rules | None:
        """Return the rules by which the gang may evict; None if its profiles have no such rules, or differ."""
        names = {queued.pod_info.pod.spec.scheduler_name for queued in members}
        plugins = {frozenset(self._profiles[name].post_filters) - {DYNAMIC_RESOURCES} for name in names}
        # Beside these, other plugins may have rules of their own about who may evict whom.
        if plugins == {frozenset({DEFAULT_PREEMPTION})}:
            return self._by_priority
        return self._by_shares if plugins == {frozenset({QUEUES})} else None

    def _never_preempts(self, tracked: TrackedGang, members: Sequence[QueuedPodInfo]) -> bool:
        if tracked.gang is not None and tracked.gang.preempts is False:
            return True
        return any(queued.pod_info.pod.spec.preemption_policy == NEVER for queued in members)

    def _waits_for_room(self, rules: Rules, preemptor: Preemptor) -> bool:
        nominated: Collection[str] = set(self._nominations_of(preemptor.members).values())
        return waits_for_room(
            rules, preemptor, self._handle.table, nominated, lambda other: self._executor.has_ended(other.pod)
        )

    def _nominations_of(self, members: Sequence[QueuedPodInfo]) -> dict[str, str]:
        """Return the nominations of the members that have one; they are known before the pods' statuses show them."""
        nominations = self._handle.nominations
        found = {
            queued.uid: nominations.node_of(queued.uid) or queued.pod_info.pod.status.nominated_node_name
            for queued in members
        }
        return {uid: name for uid, name in found.items() if name}

    def is_leaving(self, pod: Pod) -> bool:
        """Return True if a pod on a node is terminating, or is about to since a gang evicts it."""
        return self._executor.is_leaving(pod)

    def _carry_out(self, found: _Found, face: PodInfo) -> Answer:
        leaving = pods_of(found.units)
        victims = len(leaving)
        log.info("preemption found room for a gang", extra={"gang": face.key, "victims": victims})
        if victims:
            self._executor.evict(leaving, face, found.nominations)
        elif not found.uses_ending:
            self._handle.retry(face, RETRY_S)  # no event will come
        return Answer(evicting(victims, len(found.nominations)), found.nominations, evicts=True)


def _priority_of(tracked: TrackedGang, members: Sequence[QueuedPodInfo]) -> int:
    """Return the priority below which pods may be evicted: the lowest of any member, and of the gang."""
    lowest = min(queued.pod_info.priority for queued in members)
    own = None if tracked.gang is None else tracked.gang.priority
    return lowest if own is None else min(lowest, own)


class _Search:
    """The search for one gang's victims. Valid while the pods that are away can be put back."""

    def __init__(
        self,
        registry: Registry,
        planner: Planner,
        residents: Residents,
        order: Order,
        away: Away,
        within: Confinement | None,
    ) -> None:
        """`within`: the only nodes that members may be placed on."""
        self._registry = registry
        self._planner = planner
        self._residents = residents
        self._order = order
        self._away = away
        self._within = within
        self.plans = 0  # how many were made

    def run(
        self, leaving: Sequence[Unit], members: Sequence[QueuedPodInfo], missing: int, least: int, step: int
    ) -> _Found | None:
        """Return the victims and where the members would go; None if no evictions make room for `least` of them.

        `leaving`: the units that may leave, in this order. `missing`: the number of members to make room for; if they
        do not fit, as many as there is room for when all have left. `step`: how many units leave first, beside those
        terminating.
        """
        found = self._run(leaving, members, missing, step)
        if found is not None or least >= missing:
            return found
        self._away.take(pods_of(leaving))
        most = min(self._most_that_fit(members, least), missing - 1)
        for fewer in (most, least) if most > least else (most,):
            if fewer < least or self._away.is_torn:
                break
            self._away.put_all_back()
            found = self._run(leaving, members, fewer, step)
            if found is not None:
                return found
        return None

    def _most_that_fit(self, members: Sequence[QueuedPodInfo], least: int) -> int:
        """Return how many members fit now; 0 if they are fewer than `least`."""
        self.plans += 1
        plan = self._planner.plan(members, least, on_trial=True, within=self._within)
        most = len(plan.placed) if plan.reaches(least) else 0
        plan.placed.undo()
        return most

    def _run(self, leaving: Sequence[Unit], members: Sequence[QueuedPodInfo], missing: int, step: int) -> _Found | None:
        """Do what `run` does, for so many members only."""
        plan = self._remove(leaving, members, missing, step)
        if plan is None:
            return None
        try:
            return self._spare(leaving, plan)
        finally:
            plan.placed.undo()

    # --- pods leave ---

    def _remove(
        self, leaving: Sequence[Unit], members: Sequence[QueuedPodInfo], missing: int, step: int
    ) -> Plan | None:
        """Take ever more units away until the members fit. Returns the plan, which is assumed; None if none fits."""
        # 1. Twice as many from step to step.
        low, gone = 0, sum(unit.is_ending for unit in leaving)
        self._away.take(pods_of(leaving[:gone]))
        plan = self._plan(members, missing) if gone else None
        while plan is None:
            if gone == len(leaving) or self._away.is_torn:
                return None
            low, gone, step = gone, min(gone + step, len(leaving)), 2 * step
            self._away.take(pods_of(leaving[low:gone]))
            plan = self._plan(members, missing)
        # 2. Not many more than are needed, so that nobody leaves who is more important than that.
        for _ in range(FEW_STEPS):
            middle = (low + gone) // 2
            if middle <= low:
                break
            if plan is not None:
                plan.placed.undo()
            some = pods_of(leaving[middle:gone])
            self._away.put_back(some)
            plan = self._plan(members, missing)
            if plan is not None:
                gone = middle
            else:
                self._away.take(some)
                low = middle
        return plan or self._plan(members, missing)

    def _plan(self, members: Sequence[QueuedPodInfo], missing: int) -> Plan | None:
        self.plans += 1
        plan = self._planner.plan(members, missing, on_trial=True, most=missing, within=self._within)
        if plan.reaches(missing) and not self._away.is_torn:
            return plan
        plan.placed.undo()
        return None

    # --- pods come back ---

    def _spare(self, leaving: Sequence[Unit], plan: Plan) -> _Found | None:
        gone = self._away.uids
        left = [unit for unit in leaving if not unit.is_ending and any(pod.uid in gone for pod in unit.pods)]
        items = [item for unit in left for item in self._items(unit)]
        check = Fitting(self._planner, self._away, plan, MOST_CHECKS)
        # 1. Those that are where no member goes; then the others. Of each those first whose eviction costs most.
        out = self._give_back(self._order.returning([item for item in items if not check.is_touched(item)]), check)
        out += self._return_in_order([item for item in items if check.is_touched(item)], check)
        # 2. Gangs that lost more than their surplus go whole, which may spare others.
        whole = self._close_gangs(out)
        if whole:
            out = self._return_in_order([unit for unit in out if unit.gang not in whole], check)
        if self._away.is_torn or not check.holds():
            return None
        victims = self._order.by_importance([*out, *whole.values()])
        nominations = {placed.queued.uid: placed.node_name for placed in plan.placed}
        return _Found(victims, nominations, any(unit.is_ending for unit in leaving))

    def _items(self, unit: Unit) -> list[Unit]:
        """Return what comes back together of a unit: all its pods, or each by itself."""
        tracked = None if unit.gang is None else self._registry.get(unit.gang)
        if tracked is None or tracked.gang is None or tracked.gang.disruption is Disruption.ALL:
            return [unit]
        return [Unit((pod,), pod.priority, unit.gang) for pod in unit.pods]

    def _return_in_order(self, units: Sequence[Unit], check: Fitting) -> list[Unit]:
        """Put units back beside which all members still fit, in DefaultPreemption's order. Returns the others."""
        in_order = self._order.returning(units)
        if not check.is_local:
            return self._give_back(in_order, check)
        # One by one: a check is cheap, and most of those that are where members go are needed.
        return [unit for each in in_order for unit in self._give_back([each], check)]

    def _give_back(self, units: Sequence[Unit], check: Fitting) -> list[Unit]:
        """Put units back in order, each if all members still fit. Returns those that stay away.

        Many at once as far as possible: that all of some may come back shows that each of them may.
        """
        if not units:
            return []
        pods = pods_of(units)
        self._away.put_back(pods)
        if check.holds(units):
            return []
        self._away.take(pods)
        if len(units) == 1:
            return list(units)
        half = len(units) // 2
        return self._give_back(units[:half], check) + self._give_back(units[half:], check)

    def _close_gangs(self, out: Sequence[Unit]) -> dict[GangKey, Unit]:
        """Take away what is left of gangs that lose more than their surplus. Returns these gangs as units."""
        lost: dict[GangKey, set[str]] = {}
        for unit in out:
            if unit.gang is not None:
                lost.setdefault(unit.gang, set()).update(pod.uid for pod in unit.pods)
        whole: dict[GangKey, Unit] = {}
        for key, uids in lost.items():
            tracked = self._registry.get(key)
            if tracked is None:
                continue
            staying = self._residents.staying(tracked)
            left = [pod for pod in staying if pod.uid not in uids]
            if len(left) >= self._residents.needed(tracked):
                continue
            whole[key] = Unit(tuple(staying), max(pod.priority for pod in staying), key)
            self._away.take(staying)
        return whole
