"""What preemption by gangs evicts together: a pod, or a whole gang; with the orders in which units leave and return."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.framework.preemption.importance import by_importance, started_s
from kscheduler.framework.preemption.violations import overdraws
from kscheduler.gangs.gang import COMPOSITE_API, Disruption, GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.snapshot.disruption_budgets import Budget, DisruptionBudgets
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Pods on nodes that are evicted together, at least one.

    `gang`: the gang that they belong to; None for a pod of none, and for one that is terminating.
    """

    pods: tuple[PodInfo, ...]
    priority: int
    gang: GangKey | None = None
    is_ending: bool = False  # it is terminating already, so that its room costs nothing


ANY_PRIORITY = 1 << 31  # above that of all pods


Exposes = Callable[[PodInfo], bool]  # whether a pod may be evicted


class Residents:
    """The pods on nodes as units that a gang may evict.

    A pod of no gang is a unit. A gang keeps its minimum or goes whole: its members above the minimum, the least
    important ones, are units of their own, and the others are one unit. Nobody is in a unit whose own priority, or
    that of a pod to be evicted with it, is not below the preemptor's, or whom other rules protect. Valid until a pod
    comes to a node or leaves it.

    `is_ending(pod)`: whether the pod is terminating, or will be seen to be so.
    """

    def __init__(self, cache: Cache, registry: Registry, is_ending: Callable[[Pod], bool], now: float) -> None:
        """`now`: in Unix seconds, the start of pods that have not been started."""
        self._cache = cache
        self._registry = registry
        self._is_ending = is_ending
        self._now = now
        self._staying: dict[GangKey, list[PodInfo]] = {}

    def units(
        self,
        nodes: Iterable[NodeInfo],
        below: int,
        own: GangKey | None,
        exposes: Exposes | None = None,
    ) -> list[Unit]:
        """Return the units with a pod on one of these nodes, for the gang `own` with the priority `below`.

        `exposes(pod)`: whether a pod of lower priority than `below` may be evicted; None: any may.
        """
        found: list[Unit] = []
        gangs: dict[GangKey, list[PodInfo]] = {}  # the members on these nodes
        members = self._registry.members
        for node in nodes:
            for uid, pod in node.pods.items():
                member = members.get(uid)
                gang = None if member is None else member.tracked.gang
                if self._is_ending(pod.pod):
                    if pod.priority < below and (exposes is None or exposes(pod)):
                        found.append(Unit((pod,), pod.priority, is_ending=True))
                elif gang is not None and not gang.is_basic:
                    gangs.setdefault(gang.key, []).append(pod)
                elif pod.priority < below and (exposes is None or exposes(pod)):
                    found.append(Unit((pod,), pod.priority))
        for key, here in gangs.items():
            tracked = self._registry.get(key)
            if tracked is not None and key != own:
                found += self._units_of(tracked, here, below, exposes)
        return found

    def staying(self, tracked: TrackedGang) -> list[PodInfo]:
        """Return the members that are on nodes and not terminating, the most important first."""
        known = self._staying.get(tracked.key)
        if known is None:
            known = self._staying[tracked.key] = by_importance(self._find_staying(tracked), self._now)
        return known

    def _find_staying(self, tracked: TrackedGang) -> list[PodInfo]:
        states = (
            self._cache.get(uid)
            for uid, member in tracked.members.items()
            if member.stage in (Stage.ASSUMED, Stage.BOUND) and not self._is_ending(member.pod)
        )
        return [state.pod for state in states if state is not None]

    def needed(self, tracked: TrackedGang) -> int:
        """Return how many members must stay on nodes for the gang to keep its minimum."""
        succeeded = tracked.succeeded if self._registry.rules.counts_succeeded else 0
        return max(tracked.min_members - succeeded, 0)

    def _units_of(
        self, tracked: TrackedGang, here: Sequence[PodInfo], below: int, exposes: Exposes | None
    ) -> list[Unit]:
        gang = tracked.gang
        assert gang is not None, "gangs without an object are no units"
        everybody = self.staying(tracked)
        highest = max((pod.priority for pod in everybody), default=below)
        if gang.priority is not None:
            highest = max(highest, gang.priority)
        singles: list[PodInfo] = []
        if gang.disruption is Disruption.SINGLE:
            # The least important of those above the minimum that are where room is needed.
            surplus = max(len(everybody) - self.needed(tracked), 0)
            exposed = [pod for pod in by_importance(here, self._now) if pod.priority < below]
            if exposes is not None:
                exposed = [pod for pod in exposed if exposes(pod)]
            singles = exposed[max(len(exposed) - surplus, 0) :]
        units = [Unit((pod,), pod.priority, gang.key) for pod in singles]
        away = {pod.uid for pod in singles}
        rest = tuple(pod for pod in everybody if pod.uid not in away)
        is_here = any(pod.uid not in away for pod in here)
        if highest < below and is_here and (exposes is None or all(map(exposes, rest))):
            units.append(Unit(rest, highest, gang.key))
        return units


class Order:
    """The orders in which units leave and return. `now`: Unix seconds, the start of pods that have not been started."""

    def __init__(
        self, budgets: DisruptionBudgets, now: float, *, stops_at_overdrawn: bool, stops_at_pod: bool = False
    ) -> None:
        """`stops_at_pod`: behind the first pod of a unit that violates a budget no other of it uses one up."""
        self._stops_at_pod = stops_at_pod
        self._budgets = budgets
        self._now = now
        self._stops_at_overdrawn = stops_at_overdrawn  # as for `violations.split`
        self.violations: dict[Unit, int] = {}  # unit -> its pods that violate a budget, as the last `split` found

    def leaving(self, units: Iterable[Unit]) -> list[Unit]:
        """Return the units, the cheapest first.

        Those that are terminating; those that violate no PodDisruptionBudget if all before them are evicted as well;
        the others. Among these the least important first.
        """
        ending: list[Unit] = []
        staying: list[Unit] = []
        for unit in units:
            (ending if unit.is_ending else staying).append(unit)
        violating, others = self.split(sorted(staying, key=self._importance, reverse=True))
        return [*ending, *others, *violating]

    def returning(self, units: Iterable[Unit]) -> list[Unit]:
        """Return the units in the order in which preemption spares them.

        Those first that violate a PodDisruptionBudget if all more important ones are evicted as well; and the more
        important first.
        """
        violating, others = self.split(self.by_importance(units))
        return [*violating, *others]

    def by_importance(self, units: Iterable[Unit]) -> list[Unit]:
        """Return the units, the most important first."""
        return sorted(units, key=self._importance)

    def split(self, units: Sequence[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Return the units of which a pod violates a PodDisruptionBudget, and the others, each in the order given."""
        if not len(self._budgets):
            return [], list(units)
        left: dict[Budget, int] = {}
        self.violations.clear()
        violating: list[Unit] = []
        others: list[Unit] = []
        for unit in units:
            violations = 0
            for pod in unit.pods:
                violations += self._overdraws(pod.pod, left)
                if violations and self._stops_at_pod:
                    break
            if violations:
                self.violations[unit] = violations
            (violating if violations else others).append(unit)
        return violating, others

    def _overdraws(self, pod: Pod, left: dict[Budget, int]) -> bool:
        covering = (each for each in self._budgets.within(pod.metadata.namespace) if each.covers(pod))
        return overdraws(covering, left, self._stops_at_overdrawn)

    def _importance(self, unit: Unit) -> tuple[float, ...]:
        """Return a key that sorts units as kube-scheduler's workload-aware preemption does, the most important first.

        By priority; composite groups, then units of other gangs, then pods of none; the larger; the one that has run
        for longer.
        """
        start = min(started_s(pod, self._now) for pod in unit.pods)
        rank = 2 if unit.gang is None else 0 if unit.gang.api == COMPOSITE_API else 1
        return -unit.priority, rank, -len(unit.pods), start


def pods_of(units: Iterable[Unit], without: Container[str] = ()) -> list[PodInfo]:
    """Return the pods of units in order, but for those with a uid in `without`."""
    return [pod for unit in units for pod in unit.pods if pod.uid not in without]
