"""Finds where a gang that does not fit will fit first, once pods have ended there that are on nodes now.

Nobody is evicted, and any pod may be waited for, of whatever priority. For each node it is computed which pods must end
until it has room for one member, for two, and so on; of these *slots* the gang takes as many as it needs, those with
the least to wait for. A plan, made while these pods are taken away on trial, decides whether the members fit there by
all plugins; if not, more slots are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kscheduler.api.resources import PODS
from kscheduler.cache.cache import Cache
from kscheduler.framework.confinement import Confinement
from kscheduler.gangs.domains import Domain
from kscheduler.gangs.planner import Planner
from kscheduler.gangs.pod_ends import End, Ending, end_of
from kscheduler.gangs.preemption.away import Away
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.uncounted import Uncounted
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

Kept = Callable[[NodeInfo], Sequence[PodInfo]]  # nominated pods of a node that have to be left their room

MOST_DOMAINS = 8  # in which a plan is made: those with the least to wait for


class Wait(NamedTuple):
    """What is waited for on one node; less comes first."""

    lasting: int = 0  # pods that end when somebody deletes them
    open: int = 0  # pods that end by themselves, nobody knows when
    until: float = -math.inf  # Unix seconds: when the last one ends whose end is known

    def with_end(self, end: End) -> Wait:
        if end.ending is Ending.KNOWN:
            return self._replace(until=max(self.until, end.at))
        if end.ending is Ending.OPEN:
            return self._replace(open=self.open + 1)
        return self._replace(lasting=self.lasting + 1)


class _Slot(NamedTuple):
    """Room for one more member on a node."""

    wait: Wait
    row: int
    gone: int  # how many of the node's pods are gone then, in the order in which they are expected to end


@dataclass(frozen=True, slots=True)
class RoomToCome:
    """Where the members of a gang will have room."""

    nodes: Mapping[str, str]  # pod uid of a member -> node
    awaited_uids: frozenset[str]  # of pods that must end before, at most
    until: float | None  # Unix seconds: when all of them have ended, at the latest; None: that is not known

    @property
    def awaited(self) -> int:
        """How many pods must end before, at most."""
        return len(self.awaited_uids)


class _Place:
    """Some nodes in which all members must have their room, with the slots there."""

    def __init__(
        self,
        nodes: Iterable[NodeInfo],
        unit: Mapping[str, int],
        members: int,
        own: frozenset[str],
        now: float,
        kept: Kept,
    ) -> None:
        self.going: dict[int, list[PodInfo]] = {}  # row -> pods that end some time, the first to end first
        slots: list[_Slot] = []
        for node in nodes:
            ends = sorted((end_of(pod, now), pod.uid, pod) for pod in node.pods.values() if pod.uid not in own)
            going = [(end, pod) for end, _, pod in ends if end.ending is not Ending.NONE]
            self.going[node.row] = [pod for _, pod in going]
            slots += _slots(node, going, unit, members, kept(node))
        self.slots = sorted(slots)

    def wait(self, members: int) -> Wait:
        """Return what so many members wait for on the node that takes longest."""
        return self.slots[members - 1].wait if members <= len(self.slots) else Wait(lasting=1 << 62)

    def taken(self, slots: int) -> dict[int, list[PodInfo]]:
        """Return the pods that must end until the first slots are free, by row."""
        gone: dict[int, int] = {}
        for slot in self.slots[:slots]:
            gone[slot.row] = max(gone.get(slot.row, 0), slot.gone)
        return {row: self.going[row][:count] for row, count in gone.items()}


class RoomSearch:
    def __init__(self, cache: Cache, planner: Planner) -> None:
        self._cache = cache
        self._planner = planner

    def is_on_node(self, uid: str) -> bool:
        """Return whether a pod has not left its node, or the node on which it is assumed."""
        return self._cache.get(uid) is not None

    def find(
        self,
        members: Sequence[QueuedPodInfo],
        missing: int,
        nodes: Iterable[NodeInfo],
        domains: Sequence[Domain],
        own: frozenset[str],
        now: float,
        uncounted: Callable[[], Uncounted] | None = None,
    ) -> RoomToCome | None:
        """Return where `missing` of the members will fit first; None if they will not.

        `nodes`: where ends of pods may help. `domains`: in one of these all members must be, if any are named; then
        `nodes` is not looked at. `own`: uids of pods of this gang that are on nodes. `now`: Unix seconds.
        `uncounted()`: what queues with shares do not count while a plan is made; None: there are none. Nothing is
        changed.
        """
        unit = _unit(members)
        table = self._cache.table
        nominations, least = self._planner.nominations, min(queued.pod_info.priority for queued in members)

        def kept(node: NodeInfo) -> Sequence[PodInfo]:
            """Return the nominated pods that members must leave their room; of other queues with shares any."""
            found = () if nominations is None else nominations.on(node.name)
            return [pod for pod in found if pod.priority >= least or uncounted is not None]

        if domains:
            places = [_Place((table.at(row) for row in each.rows), unit, missing, own, now, kept) for each in domains]
        else:
            places = [_Place(nodes, unit, missing, own, now, kept)]
        places = [place for place in places if place.slots]
        places.sort(key=lambda place: place.wait(missing))
        for place in places[:MOST_DOMAINS]:
            found = self._try(place, members, missing, now, uncounted)
            if found is not None:
                return found
        return None

    def _try(
        self,
        place: _Place,
        members: Sequence[QueuedPodInfo],
        missing: int,
        now: float,
        uncounted: Callable[[], Uncounted] | None,
    ) -> RoomToCome | None:
        """Plan the members on ever more slots of a place."""
        slots = missing
        while True:
            taken = place.taken(slots)
            nodes = self._plan(taken, members, missing, uncounted)
            if nodes is not None:
                return _room(nodes, taken, self._cache, now)
            if slots >= len(place.slots):
                return None
            slots *= 2

    def _plan(
        self,
        taken: Mapping[int, Sequence[PodInfo]],
        members: Sequence[QueuedPodInfo],
        missing: int,
        uncounted: Callable[[], Uncounted] | None,
    ) -> dict[str, str] | None:
        """Return the nodes that members get when these pods are gone; None if too few get one."""
        within = Confinement.to(sorted(taken), self._cache.table.columns.rows)
        with Away(self._cache, None if uncounted is None else uncounted()) as away:
            away.take(pod for pods in taken.values() for pod in pods)
            plan = self._planner.plan(members, missing, on_trial=True, most=missing, within=within)
            try:
                if not plan.reaches(missing) or away.is_torn:
                    return None
                return {placed.queued.uid: placed.node_name for placed in plan.placed}
            finally:
                plan.placed.undo()


def _room(nodes: dict[str, str], taken: Mapping[int, Sequence[PodInfo]], cache: Cache, now: float) -> RoomToCome:
    names = set(nodes.values())
    awaited = [pod for row, pods in taken.items() if cache.table.at(row).name in names for pod in pods]
    ends = [end_of(pod, now) for pod in awaited]
    are_known = all(end.ending is Ending.KNOWN for end in ends)
    uids = frozenset(pod.uid for pod in awaited)
    return RoomToCome(nodes, uids, max((end.at for end in ends), default=None) if are_known else None)


def _unit(members: Sequence[QueuedPodInfo]) -> dict[str, int]:
    """Return how much of each resource is enough for any of the members."""
    unit: dict[str, int] = {}
    for resources in {id(queued.pod_info.resources): queued.pod_info.resources for queued in members}.values():
        for name, amount in resources.requests.items():
            unit[name] = max(unit.get(name, 0), amount)
    return unit


def _slots(
    node: NodeInfo, going: Sequence[tuple[End, PodInfo]], unit: Mapping[str, int], most: int, kept: Sequence[PodInfo]
) -> Iterator[_Slot]:
    """Yield a node's slots, up to so many, each with what is waited for until all before it are free as well.

    `kept`: pods that have to be left their room there.
    """
    free = {name: node.free_of(name) for name in unit}
    for pod in kept:
        for name in unit:
            free[name] -= pod.resources.total.amount(name)
    pods, gone, wait = node.free_of(PODS) - len(kept), 0, Wait()
    while most:
        if pods > 0 and all(free[name] >= amount for name, amount in unit.items()):
            yield _Slot(wait, node.row, gone)
            pods, most = pods - 1, most - 1
            for name, amount in unit.items():
                free[name] -= amount
            continue
        if gone == len(going):
            return
        end, pod = going[gone]
        wait, gone, pods = wait.with_end(end), gone + 1, pods + 1
        for name in unit:
            free[name] += pod.resources.total.amount(name)
