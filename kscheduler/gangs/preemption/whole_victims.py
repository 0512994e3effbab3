"""Gangs as victims of a single pod's preemption: a gang keeps its minimum, or goes whole.

A node is first tried as if there were no gangs, which kernels do for many nodes at once. If that would leave a gang too
small, the node is tried again in units: members above the minimum one by one, the others together, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, DryRun, Findings
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.defaultpreemption.dry_run import NO_VICTIMS
from kscheduler.framework.preemption.executor import ACCEPTED_S
from kscheduler.framework.status import Status, unresolvable
from kscheduler.gangs.gang import Disruption, GangKey
from kscheduler.gangs.preemption.unit_dry_run import Fault, Trial, Violations, candidate_of_units
from kscheduler.gangs.preemption.units import Order, Residents, Unit
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import TrackedGang
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo

MIN_NODES_AT_ONCE = 128
MOST_MOVES = 50_000  # of pods from and to nodes, in one search; a dry run in units may move thousands of pods
TOO_MANY = unresolvable("Evicting gangs there was not tried, since others were tried before")


class WholeVictims:
    """The gangs whose pods are evicted together; `handle` must be set before a pod preempts."""

    handle: Handle

    def __init__(self, cache: Cache, registry: Registry) -> None:
        self.cache = cache
        self.registry = registry

    def priority_of(self, pod: PodInfo) -> int:
        return pod.priority

    def may_outrank(self) -> bool:
        return False

    def is_member(self, pod: PodInfo) -> bool:
        return pod.uid in self.registry.members

    def dry_run(self, singly: DryRun) -> DryRun:
        return _WholeDryRun(singly, self)

    def also_leaving(self, victims: Sequence[PodInfo], preemptor: PodInfo) -> Sequence[tuple[PodInfo, NodeInfo]] | None:
        """Return the rest of the gangs that would be too small without these victims, with their nodes.

        None if the preemptor is itself of such a gang.
        """
        gangs = Gangs(self)
        own = gangs.key_of(preemptor)
        further: list[tuple[PodInfo, NodeInfo]] = []
        for tracked in gangs.broken_by(victims):
            if tracked.key == own:
                return None
            gone = {victim.uid for victim in victims}
            for pod in gangs.residents.staying(tracked):
                state = self.cache.get(pod.uid)
                node = None if state is None else self.cache.table.get(state.node_name)
                if pod.uid not in gone and node is not None:
                    further.append((pod, node))
        return further


class Gangs:
    """The gangs on nodes, as they are now."""

    def __init__(self, victims: WholeVictims) -> None:
        self._registry = victims.registry
        self._endings = victims.handle.endings
        self.now = victims.handle.evictions.wall()
        self.residents = Residents(victims.cache, victims.registry, self._is_leaving, self.now)

    def _is_leaving(self, pod: Pod) -> bool:
        """Return True if the pod is terminating, or will be seen to be so: a preemptor has chosen it."""
        uid = pod.metadata.uid
        accepted = self._endings.accepted.get(uid)
        if pod.metadata.deletion_timestamp is not None or self._endings.is_chosen(uid):
            return True
        return accepted is not None and abs(self.now - accepted) < ACCEPTED_S

    def key_of(self, pod: PodInfo) -> GangKey | None:
        member = self._registry.members.get(pod.uid)
        return None if member is None else member.tracked.key

    def broken_by(self, victims: Iterable[PodInfo]) -> Iterator[TrackedGang]:
        """Return the gangs of which these victims would leave some pods, but too few."""
        lost: dict[GangKey, set[str]] = {}
        for victim in victims:
            member = self._registry.members.get(victim.uid)
            if member is not None and member.tracked.gang is not None and not member.tracked.gang.is_basic:
                lost.setdefault(member.tracked.key, set()).add(victim.uid)
        for key, uids in lost.items():
            tracked = self._registry.get(key)
            if tracked is None or tracked.gang is None:
                continue
            staying = self.residents.staying(tracked)
            left = [pod for pod in staying if pod.uid not in uids]
            if not left or len(left) == len(staying):
                continue
            if tracked.gang.disruption is Disruption.ALL or len(left) < self.residents.needed(tracked):
                yield tracked


class _WholeDryRun:
    def __init__(self, singly: DryRun, victims: WholeVictims) -> None:
        self._singly = singly
        self._victims = victims

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        if not self._victims.registry.members:
            return self._singly.search(state, pod, nodes, wanted)
        findings, in_units = Findings(wanted), _InUnits(self._victims, state, pod)
        step = max(wanted, MIN_NODES_AT_ONCE)
        for start in range(0, len(nodes), step):
            part = nodes[start : start + step]
            found = self._singly.search(state, pod, part, len(part))
            candidates = {each.node_name: each for each in found.candidates}
            for node in part:
                outcome: Candidate | Status = candidates.get(node.name) or found.statuses[node.name]
                if isinstance(outcome, Candidate) and in_units.breaks(outcome):
                    outcome = in_units.try_node(node)
                findings.add(node.name, outcome)
                if findings.is_enough:
                    return findings
        return findings


class _InUnits:
    """Dry runs in units, for one preemptor."""

    def __init__(self, victims: WholeVictims, state: CycleState, pod: PodInfo) -> None:
        handle = victims.handle
        self._cache = victims.cache
        self._handle = handle
        self._registry = victims.registry
        self._state = state
        self._pod = pod
        self._gangs = Gangs(victims)
        self._own = self._gangs.key_of(pod)
        self._stops = handle.release.stops_at_overdrawn_budget
        self._order = Order(handle.budgets, self._gangs.now, stops_at_overdrawn=self._stops)
        self._moves = 0

    def breaks(self, candidate: Candidate) -> bool:
        return next(self._gangs.broken_by(candidate.victims), None) is not None

    def try_node(self, node: NodeInfo) -> Candidate | Status:
        """Return the node as a candidate, or a status that states why evictions in units do not help there."""
        if self._moves > MOST_MOVES:
            return TOO_MANY
        units = self._gangs.residents.units([node], self._pod.priority, self._own)
        if not units:
            return NO_VICTIMS
        profile = self._handle.profiles[self._state.decider or self._pod.pod.spec.scheduler_name]
        trial = Trial(self._cache, profile.what_if(self._state, self._pod, node.name), node)
        try:
            return self._try(trial, node, units)
        except Fault as fault:
            return fault.status
        finally:
            self._moves += trial.moves

    def _try(self, trial: Trial, node: NodeInfo, units: Sequence[Unit]) -> Candidate | Status:
        # 1. All units leave. Does it help at all?
        for unit in units:
            trial.take(unit.pods)
        status = trial.why_not()
        if status is not None:
            return status
        # 2. They come back where the pod still fits.
        violations = Violations(self._order, units, self._handle.budgets, stops_at_overdrawn=self._stops)
        out = trial.give_back(violations.first(units))
        # 3. Gangs that lost more than their surplus go whole, which may spare others.
        whole = self._close(trial, out)
        if whole:
            status = trial.why_not()
            if status is not None:  # it needs one of them near
                return status
            out = trial.give_back(violations.first(unit for unit in out if unit.gang not in whole))
        return candidate_of_units(node, [*out, *whole.values()], self._order, violations)

    def _close(self, trial: Trial, out: Sequence[Unit]) -> dict[GangKey, Unit]:
        """Take away what is left of gangs that lose more than their surplus. Returns these gangs as units."""
        gone = {pod.uid for unit in out for pod in unit.pods}
        whole: dict[GangKey, Unit] = {}
        for tracked in self._gangs.broken_by(pod for unit in out for pod in unit.pods):
            staying = self._gangs.residents.staying(tracked)
            trial.take(pod for pod in staying if pod.uid not in gone)
            whole[tracked.key] = Unit(tuple(staying), max(pod.priority for pod in staying), tracked.key)
        return whole
