"""Plans PodGroups as kube-scheduler 1.37 does with the gate TopologyAwareWorkloadScheduling: by *placements*.

A placement is the nodes with one value of the label that the group's topology constraint names; without a constraint
there is one placement, of all nodes. The group is planned in each by itself, and of those that hold it the one with the
highest score is taken: by the number of pods, and by how full its nodes are then. Sources: the functions about
placements in pkg/scheduler/schedule_one_podgroup.go, and the plugins TopologyPlacementGenerator, PodGroupPodsCount and
NodeResourcesFit of that release. It tries placements in no order; here they are tried in the order of their names.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kscheduler.config.extension_points import ExtensionPoint
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.confinement import Confinement
from kscheduler.framework.plugins.noderesources.fit import NAME as FIT
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.runtime import Framework
from kscheduler.gangs.domains import NONE, Domain, DomainIndex
from kscheduler.gangs.planner import Plan, Planner
from kscheduler.gangs.texts import (
    GROUP_UNSCHEDULABLE,
    NO_PLACEMENTS,
    domain_unknown,
    minimum_out_of_reach,
    no_domain_of_pod,
    no_placement_available,
    several_domains,
)
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.gangs.undo_log import Placed, UndoLog
from kscheduler.queue.pod_info import QueuedPodInfo

GENERATOR, PODS_COUNT = "TopologyPlacementGenerator", "PodGroupPodsCount"
MAX_SCORE = 100


class DomainUnknown(Exception):
    """The placed pods of a group are in no domain, or in several: a fault, with kube-scheduler's message."""


@dataclass(frozen=True, slots=True)
class PlacementPlugins:
    """What a profile has of the plugins that make and score placements."""

    generates: bool
    weights: Mapping[str, int]  # plugin name -> weight


def placement_plugins(config: SchedulerConfig) -> dict[str, PlacementPlugins]:
    """Return scheduler name -> the plugins about placements that the profile enables."""
    found: dict[str, PlacementPlugins] = {}
    for profile in config.profiles:
        points = effective_plugins(profile, config.release.points, config.release)
        generators = {name for name, _ in points[ExtensionPoint.PLACEMENT_GENERATE]}
        weights = dict(points[ExtensionPoint.PLACEMENT_SCORE])
        found[profile.scheduler_name] = PlacementPlugins(GENERATOR in generators, weights)
    return found


@dataclass(frozen=True, slots=True)
class Available:
    """A placement that holds the group."""

    domain: Domain | None  # None: all nodes
    placed: Sequence[Placed]  # undone


class PlacementObserver(Protocol):
    """Who counts placements: Measurements."""

    def placements_generated(self, profile: str, count: int) -> None: ...
    def placements_evaluated(self, profile: str, *, is_feasible: bool, count: int, seconds: float) -> None: ...


class Placements:
    def __init__(
        self,
        planner: Planner,
        index: DomainIndex,
        profiles: Mapping[str, Framework],
        plugins: Mapping[str, PlacementPlugins],
        choose: Callable[[Sequence[Available]], Available],
        *,
        observer: PlacementObserver,
        stopwatch: Callable[[], float],
    ) -> None:
        """`choose`: takes one of those placements that have the highest score."""
        self._observer = observer
        self._stopwatch = stopwatch
        self._planner = planner
        self._index = index
        self._profiles = profiles
        self._plugins = plugins
        self.choose = choose

    def plan(
        self, tracked: TrackedGang, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool = False
    ) -> Plan:
        """Plan a group as `Planner.plan` does, in the best placement.

        If none is available, the plan is the first one's, undone, and has the group's `reasons`. Raises DomainUnknown.
        """
        profile = members[0].pod_info.pod.spec.scheduler_name
        return self.plan_within(None, tracked, members, missing, profile, on_trial=on_trial)

    def plan_within(
        self,
        within: Domain | None,
        tracked: TrackedGang,
        members: Sequence[QueuedPodInfo],
        missing: int,
        profile: str,
        *,
        on_trial: bool,
    ) -> Plan:
        """Plan a group as `plan` does, on nodes of one placement only; None: of all nodes."""
        places = self.generate(tracked, profile, within)
        if not places:
            undone = UndoLog(self._planner.cache)
            return Plan(undone, not_tried=members, is_trial=on_trial, reasons=(NO_PLACEMENTS,))
        before, least = tracked.placed, tracked.min_members  # a member that is assumed counts as placed
        available: list[Available] = []
        plans: list[Plan] = []
        self._observer.placements_generated(profile, len(places))
        for place in self._look_for_promising(places, members, least - before, profile):
            began = self._stopwatch()
            plan = self._plan_in(place, members, missing, on_trial=on_trial)
            if plan.fault is not None:
                return plan
            is_feasible = before + len(plan.placed) >= least
            took = self._stopwatch() - began
            self._observer.placements_evaluated(profile, is_feasible=is_feasible, count=1, seconds=took)
            if is_feasible:
                if len(places) == 1:
                    return plan
                available.append(Available(place, list(plan.placed)))
                plans.append(plan)
            plan.placed.undo()
        if not available:
            first = self._plan_in(places[0], members, missing, on_trial=on_trial)
            if first.fault is None:
                first.reasons = _reasons_of_none(first, before, least, len(places))
                first.had_node = {placed.queued.uid for placed in first.placed}
                first.placed.undo()
            return first
        best = self.best(tracked, profile, available)
        self._planner.place_again(plans[best], members, available[best].placed)
        return plans[best]

    def _plan_in(self, place: Domain | None, members: Sequence[QueuedPodInfo], missing: int, *, on_trial: bool) -> Plan:
        within = None if place is None else place.confinement
        return self._planner.plan(members, missing, on_trial=on_trial, within=within)

    # --- which placements ---

    def _look_for_promising(
        self, places: Sequence[Domain | None], members: Sequence[QueuedPodInfo], needed: int, profile: str
    ) -> list[Domain | None]:
        """Return the promising placements, and count the others as infeasible, each with its share of the time."""
        began = self._stopwatch()
        promising = self._promising(places, members, needed)
        others = len(places) - len(promising)
        if others:
            share = (self._stopwatch() - began) / len(places)
            self._observer.placements_evaluated(profile, is_feasible=False, count=others, seconds=share)
        return promising

    def _promising(
        self, places: Sequence[Domain | None], members: Sequence[QueuedPodInfo], needed: int
    ) -> list[Domain | None]:
        """Return the placements that may have room for as many members as are needed, as far as kernels know that."""
        domains = [place for place in places if place is not None]
        if len(places) < 2 or needed <= 0:
            return list(places)
        numbers = {place.number: i for i, place in enumerate(domains)}
        by_row = array("i", [NONE]) * self._index.table.columns.rows
        for place in domains:
            for row in place.rows:
                by_row[row] = numbers[place.number]
        most = self._planner.most_by_domain(members, by_row, len(domains))
        return [place for place, fits in zip(domains, most, strict=True) if fits >= needed]

    def generate(self, tracked: TrackedGang, profile: str, within: Domain | None = None) -> Sequence[Domain | None]:
        """Return the placements of a group, or of a composite group, on nodes of another one; None: of all nodes.

        Raises DomainUnknown.
        """
        topology = None if tracked.gang is None else tracked.gang.topology
        if topology is None or not self._plugins[profile].generates:
            return [within]
        domains = self._index.domains((topology.required,))
        names = {self._domain_of(pod_key, node, topology.required) for pod_key, node in self._scheduled(tracked)}
        if len(names) > 1:
            raise DomainUnknown(domain_unknown(several_domains(sorted(names))))
        found = [domain for domain in domains.each if not names or domain.name in names]
        return found if within is None else [part for domain in found if (part := domain.within(within)) is not None]

    def _scheduled(self, tracked: TrackedGang) -> list[tuple[str, str]]:
        """Return (key, node) of the pods of the group that have a node."""
        found = []
        for uid, member in tracked.members.items():
            state = self._planner.cache.get(uid) if member.stage in (Stage.ASSUMED, Stage.BOUND) else None
            if state is not None:
                found.append((state.pod.key, state.node_name))
        return found

    def _domain_of(self, pod_key: str, node_name: str, label: str) -> str:
        node = self._index.table.get(node_name)
        if node is None or label not in node.labels:
            raise DomainUnknown(domain_unknown(no_domain_of_pod(pod_key)))
        return node.labels[label]

    # --- which one is the best ---

    def best(self, tracked: TrackedGang, profile: str, available: Sequence[Available]) -> int:
        """Return which of the placements that hold a group is taken. Nothing of it may be assumed."""
        if len(available) == 1:
            return 0
        weights = self._plugins[profile].weights
        most = max(tracked.placed + len(each.placed) for each in available)
        fit = self._profiles[profile].plugin(FIT)
        scores = []
        for each in available:
            score = 0
            if PODS_COUNT in weights:
                score += weights[PODS_COUNT] * ((tracked.placed + len(each.placed)) * MAX_SCORE // most)
            if FIT in weights and isinstance(fit, Fit):
                pods = [placed.queued.pod_info for placed in each.placed]
                score += weights[FIT] * fit.score_placement(pods, self._rows(each.domain))
            scores.append(score)
        best = max(scores)
        chosen = self.choose([each for each, score in zip(available, scores, strict=True) if score == best])
        return next(at for at, each in enumerate(available) if each is chosen)

    def _rows(self, domain: Domain | None) -> Sequence[int]:
        confinement: Confinement | None = None if domain is None else domain.confinement
        return [node.row for node in self._index.table] if confinement is None else confinement.rows


def _reasons_of_none(plan: Plan, before: int, least: int, placements: int) -> tuple[str, ...]:
    """Return why a group is unschedulable if no placement is available.

    `plan`: that of the first one, not undone. `before`: how many pods had a node before. `least`: the minimum.
    """
    status = GROUP_UNSCHEDULABLE  # where nothing was tried
    if len(plan.placed) or plan.failed:
        status = minimum_out_of_reach(least, before + len(plan.placed), len(plan.not_tried))
    return GROUP_UNSCHEDULABLE, no_placement_available(placements, status)
