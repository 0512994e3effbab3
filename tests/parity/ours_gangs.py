"""What this program decides about a group, in the oracle's format.

The real queue, registry, planner and cycle of groups run on the real cache, with the plugins that the registry builds.
Of nodes with the highest score kube-scheduler takes any; a further Score plugin lets this program take the same.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from kscheduler.api.decode import convert_object
from kscheduler.api.objects import Pod, PodCondition, PodDisruptionBudget
from kscheduler.api.pod_groups import CompositePodGroup, PodGroup
from kscheduler.api.pod_groups import GroupCondition as Condition
from kscheduler.cache.cache import Cache
from kscheduler.client.pod_group_kinds import pod_groups
from kscheduler.client.pod_status import PodStatusLane
from kscheduler.client.retry_pauses import RetryPauses
from kscheduler.client.write_permission import WritePermission
from kscheduler.config.load import parse_config
from kscheduler.config.releases import release_of
from kscheduler.config.types import SchedulerConfig
from kscheduler.cycle.binding_tasks import PreBindSteps, QuickSteps
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.cycle.schedule_one import BindingCycle, ScheduleOne
from kscheduler.cycle.waiting_pods import WaitingPods
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.defaultpreemption.plugin import NAME as DEFAULT_PREEMPTION
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import Status
from kscheduler.gangs.composites import Composites
from kscheduler.gangs.domains import DomainIndex
from kscheduler.gangs.doors import COMPOSITE_DOOR, KUBERNETES_DOOR, Doors
from kscheduler.gangs.gang_cycle import GangBatch
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.group_events import GroupEvents
from kscheduler.gangs.kubernetes_cycle import KubernetesGangCycle
from kscheduler.gangs.member_stages import MemberStages
from kscheduler.gangs.memberwise_cycle import MemberwiseCycle
from kscheduler.gangs.memberwise_placements import MemberwisePlacements
from kscheduler.gangs.memberwise_planner import MemberwisePlan, MemberwisePlanner
from kscheduler.gangs.placements import Available, Placements, placement_plugins
from kscheduler.gangs.planner import Planner
from kscheduler.gangs.preemption.executor import GangExecutor
from kscheduler.gangs.preemption.kubernetes import KubernetesPreemption, PreemptionAnswer
from kscheduler.gangs.preemption.memberwise import MemberwisePreemption
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reports import GangReports
from kscheduler.gangs.rules import rules_of
from kscheduler.gangs.status_writer import GroupStatuses
from kscheduler.observability.measurements import Measurements
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.simulator.cluster import Cluster
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from tests.cycle.bench import Events
from tests.parity.detours import read_node, read_pod
from tests.parity.detours_devices import inform_about_devices, mislead_about_devices
from tests.parity.generate_gangs import PLACEMENTS, GangCase
from tests.parity.oracle import ClaimWrites, Ganged, GroupCondition, Member
from tests.parity.ours import fill_around
from tests.parity.ours_claim_writes import NotedGroupWrites, overlook_nodes, write_claims
from tests.parity.ours_devices import Ticks
from tests.parity.ours_preemption import NotedEvictions
from tests.support.checks import check_cache
from tests.support.clocks import ManualClock

_MEASUREMENTS = Measurements()  # of all cases; nobody looks at them
Nodes = Mapping[str, Collection[str]]  # pod -> nodes
Chosen = Sequence[Mapping[str, Counter[str]]]  # for each attempt: pod -> how often it had a node
SCALE = 1000  # of all weights, so that the plugin that breaks ties has the last word only


def decide_gang(
    case: GangCase,
    taken: Nodes,
    again: Nodes,
    order: Sequence[str] = (),
    chosen: Chosen | None = None,
    tried: Sequence[Nodes] = (),
) -> Ganged:
    """Decide about the group of a case.

    `taken`: the nodes that kube-scheduler took, by pod, until it gave any back; `again`: after that. `order`: the names
    of pods in its order, where that is by chance. `chosen`: how often pods had nodes, more often in placements that it
    chose. `tried`: the nodes that pods had each time that the group was planned, where it was often.
    """
    return _World(case, taken, again, order, chosen or [{}], tried).decide()


@functools.lru_cache(maxsize=256)
def _read_config(text: str, release: str, *gates: str) -> SchedulerConfig:
    return parse_config(text, release=release_of(release).with_gates(dict.fromkeys(gates, True)))


class _World:
    def __init__(
        self,
        case: GangCase,
        taken: Nodes,
        again: Nodes,
        order: Sequence[str],
        chosen: Chosen,
        tried: Sequence[Nodes],
    ) -> None:
        self._case = case
        config = _read_config(json.dumps(case.config), case.release, *case.gates)
        self._release = config.release
        self._found = Ganged(taken={}, failed=[])
        self._conditions: list[tuple[str, Condition]] = []
        self.clock = ManualClock(now=100.0)
        self._cache, self._nominations = Cache(), Nominations()
        nominations, self._evictions = self._nominations, _LateEvictions()
        self._claims = NotedGroupWrites()
        ties = _TieBreaker({**again, **taken})
        frameworks: dict[str, Framework] = {}
        handle = Handle(
            table=self._cache.table,
            profiles=frameworks,
            rng=random.Random(0),
            nominations=nominations,
            evictions=self._evictions,
            devices=Devices(self._release),
            claims=self._claims,
            stopwatch=Ticks(),
            release=self._release,
        )
        fill_around(handle, case.cluster)
        self._handle, self._frameworks = handle, frameworks
        for budget in case.cluster.get("podDisruptionBudgets", ()):
            handle.budgets.set(convert_object(budget, PodDisruptionBudget))
        for profile in config.profiles:
            points = build(profile, handle)
            scorers = [(plugin, SCALE * weight) for plugin, weight in points.get("score", ())]
            points["score"] = [*scorers, (ties, 1)]
            for plugin, _ in points.get("preFilter", ()):
                if isinstance(plugin, DynamicResources) and self._release.pods_release_group_claims:
                    overlook_nodes(plugin)
            frameworks[profile.scheduler_name] = Framework(
                profile.scheduler_name,
                points,
                handle,
                observer=_MEASUREMENTS,
                stopwatch=lambda: 0.0,
                percentage_of_nodes_to_score=100,
                first_on_tie=True,
            )
        self._registry = Registry(Doors([KUBERNETES_DOOR]), rules_of(config))
        first = next(iter(frameworks.values()))
        self._queue = GangQueue(
            lambda queued: first.sort_key(queued.pod_info.priority, queued.timestamp),
            lambda pod: frameworks[pod.pod.spec.scheduler_name].run_pre_enqueue(pod),
            gangs=self._registry,
            registered={name: {} for name in frameworks},  # there is one attempt, and nothing to wake it before
            release=self._release,
        )
        self._cache.follow(
            MemberStages(
                self._registry,
                will_return=self._queue.will_return,
                changed=lambda key: self._queue.reconsider(key, self.clock.now()),
            )
        )
        self._watched: dict[str, Pod] = {}
        recorder = Events(self.clock)
        one = ScheduleOne(
            self._cache,
            self._queue,
            frameworks,
            clock=self.clock,
            stopwatch=self.clock.now,
            measurements=_MEASUREMENTS,
            recorder=recorder,
            statuses=_Failures(self.clock, self._found),
            nominations=nominations,
            waiting_pods=WaitingPods(),
            pre_binds=PreBindSteps(),
            quick_steps=QuickSteps(100),
            current_pod=self._watched.get,
            refused_pods=RefusedPods(self._queue, self.clock, RetryPauses(random.Random(0)), lambda: None),
        )
        permission = WritePermission()
        writes: Any = _Writes(self._conditions)
        self._statuses = GroupStatuses(
            writes,
            pod_groups(self._release),
            self._release.pod_group_condition,
            permission,
            self.clock,
        )
        reports = GangReports(
            self._registry,
            _Silent(self.clock),
            self._statuses,
            _MEASUREMENTS,
            permission,
            self.clock,
            {KUBERNETES_DOOR.api: self._release.pod_group_api},
        )
        settings: dict[str, Any] = {"dispatch": self._dispatch, "clock": self.clock, "stopwatch": self.clock.now}
        self._batch = GangBatch(self._queue, self._cache, frameworks, one, None, decisions=None, **settings)
        kind = MemberwisePlanner if self._registry.rules.preempts_by_member else Planner
        planner = kind(self._cache, frameworks, None, asks_again=True, nominations=nominations)
        chooser = _Chooser(chosen)
        placements = composites = None
        if set(PLACEMENTS) <= set(case.more_gates):
            plugins, index = placement_plugins(config), DomainIndex(self._cache.table)
            placements = Placements(
                planner, index, frameworks, plugins, chooser.choose, observer=_MEASUREMENTS, stopwatch=self.clock.now
            )
        if isinstance(planner, MemberwisePlanner):
            by_member = None if placements is None else MemberwisePlacements(planner, placements)
            parts = self._queue, self._registry, planner, one
            together = None
            if self._registry.rules.preempts_together:
                executor = GangExecutor(
                    handle, DEFAULT_PREEMPTION, record_event=lambda *_: None, gang_uid=reports.uid_of_face
                )
                together = MemberwisePreemption(self._cache, self._registry, handle, executor)
            self._batch.gangs = _InOrder(
                *parts, placements=by_member, group_preemption=together, reports=reports, **settings
            )
            self._batch.gangs.order = order
            if together is not None:
                self._batch.gangs.turns = [functools.partial(ties.turn_to, nodes) for nodes in tried]
            return
        if placements is not None:
            composites = Composites(planner, placements)
        executor = GangExecutor(handle, DEFAULT_PREEMPTION, record_event=lambda *_: None, gang_uid=reports.uid_of_face)
        preemption = _Preemption(self._cache, self._registry, planner, handle, executor)

        def turn() -> None:
            ties.turn_to({**taken, **again})
            chooser.turn()

        preemption.turn = turn
        self._batch.gangs = KubernetesGangCycle(
            self._queue,
            self._registry,
            planner,
            one,
            release=self._release,
            group_preemption=preemption,
            placements=placements,
            composites=composites,
            reports=reports,
            **settings,
        )

    def decide(self) -> Ganged:
        case, queue = self._case, self._queue
        if case.has_claims:
            self._show_claims()
        for node in case.cluster.get("nodes", ()):
            self._cache.set_node(read_node(node))
        for pod in case.cluster.get("pods", ()):
            info = read_pod(pod, self._release)
            self._cache.set_pod(info)
            self._evictions.show(info.pod)
        events, of_composites = (
            GroupEvents(
                door,
                self._registry,
                queue,
                queue.reconsider,
                clock=self.clock,
                measurements=_MEASUREMENTS,
                wake=lambda: None,
                statuses=self._statuses if door is KUBERNETES_DOOR else None,
            )
            for door in (KUBERNETES_DOOR, COMPOSITE_DOOR)
        )
        for group in case.pod_groups:
            events.on_add(convert_object(group, PodGroup))
        for group in case.composites:
            of_composites.on_add(convert_object(group, CompositePodGroup))
        for document in case.pending:
            self.clock.advance(0.001)
            info = read_pod(document, self._release)
            self._watched[info.key] = info.pod
            self._evictions.show(info.pod)
            profile = self._frameworks.get(info.pod.spec.scheduler_name)
            if self._release.nominates_gated or profile is None or profile.run_pre_enqueue(info) is None:
                self._nominations.nominate(info, None)
            queue.add(info, self.clock.now())
        before = len(self._registry.members)
        self._found.is_tried = self._batch.run(self.clock.now(), 1) > 0
        assert len(self._registry.members) == before or self._found.is_tried, "a group that is not tried stays"
        queue.check()
        self._registry.check()
        check_cache(self._cache)
        self._evictions.finish()
        self._found.ended = self._evictions.ended_pods
        self._found.claims = ClaimWrites(self._claims.written, self._claims.deallocated, self._claims.released)
        asyncio.run(self._write())
        conditions = {
            name: GroupCondition(each.type, each.status, each.reason, each.message, each.observed_generation or 0)
            for name, each in self._conditions
        }
        if case.composites:
            self._found.conditions = conditions
        else:
            self._found.condition = next(iter(conditions.values()), None)
        return self._found

    def _show_claims(self) -> None:
        devices, detours = self._handle.devices, random.Random(self._case.seed)
        mislead_about_devices(devices, self._case.cluster, self._release, detours)
        inform_about_devices(devices, self._case.cluster, self._release, detours)
        for document in self._case.pod_groups:
            group = convert_object(document, PodGroup)
            devices.groups[group.key] = group

    async def _write(self) -> None:
        await self._statuses._write_all()

    def _dispatch(self, cycle: BindingCycle) -> None:
        self._found.pods[cycle.pod.pod.metadata.name] = Member(cycle.node_name)
        if self._case.has_claims:
            status = write_claims(cycle)
            assert status is None, f"no write fails: {status}"


class _Chooser:
    """Takes the placement that kube-scheduler took, of those with the highest score."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen, *self._later = chosen

    def turn(self) -> None:
        """Go on to the trial without victims."""
        if self._later:
            self._chosen = self._later.pop(0)

    def choose(self, best: Sequence[Available]) -> Available:
        return max(best, key=self._agreeing)

    def _agreeing(self, available: Available) -> int:
        names = {placed.queued.pod_info.pod.metadata.name: placed.node_name for placed in available.placed}
        return sum(self._chosen[name][node] for name, node in names.items() if name in self._chosen)


class _TieBreaker:
    """A Score plugin that prefers the nodes that kube-scheduler took."""

    name = "TieBreaker"

    def __init__(self, taken: Nodes) -> None:
        self._taken = taken

    def turn_to(self, taken: Nodes) -> None:
        self._taken = taken

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return 100 * (node.name in self._taken.get(pod.pod.metadata.name, ())), None


class _LateEvictions(NotedEvictions):
    """Evictions that begin after the attempt."""

    def __init__(self) -> None:
        super().__init__()
        self._late: list[Coroutine[Any, Any, None]] = []

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._late.append(work)

    def finish(self) -> None:
        for work in self._late:
            super().begin(work)


class _InOrder(MemberwiseCycle):
    """Tries the members in kube-scheduler's order, which is by chance where their priorities are equal."""

    order: Sequence[str] = ()
    turns: Sequence[Callable[[], None]] = ()  # called before the group is planned for the first time, the second, ...

    def _plan_each(self, *asked: Any, **how: Any) -> MemberwisePlan:
        if self.turns:
            turn, *self.turns = self.turns
            turn()
        return super()._plan_each(*asked, **how)

    def _in_order(self, members: Iterable[QueuedPodInfo]) -> list[QueuedPodInfo]:
        place = {name: position for position, name in enumerate(self.order)}
        return sorted(members, key=lambda queued: place.get(queued.pod_info.pod.metadata.name, len(place)))


class _Preemption(KubernetesPreemption):
    """Preemption by groups that calls `turn` first, since kube-scheduler may take other nodes from then on."""

    turn: Callable[[], None]

    def preempt(self, *asked: Any, **more: Any) -> PreemptionAnswer:
        self.turn()
        return super().preempt(*asked, **more)


class _Failures(PodStatusLane):
    """Notes the failures of pods in place of writing them."""

    def __init__(self, clock: ManualClock, found: Ganged) -> None:
        super().__init__(Cluster(clock).client())
        self._found = found

    def patch(self, pod: Pod, condition: PodCondition, nomination: str | None = None) -> None:
        name = pod.metadata.name
        assert self._found.failed is not None
        self._found.failed.append(name)
        self._found.pods[name] = Member(
            "", condition.message or "", condition.reason == "Unschedulable", "", nomination
        )

    async def nominate(self, pod: Pod, node_name: str) -> None:
        pass

    def forget(self, uid: str) -> None:
        pass


class _Silent(Events):
    def record(self, *args: Any, **fields: Any) -> None:
        pass


class _Writes:
    """A client that notes conditions of groups in place of writing them."""

    def __init__(self, conditions: list[tuple[str, Condition]]) -> None:
        self._conditions = conditions

    async def patch_condition(self, resource: Any, namespace: str, name: str, uid: str, condition: Condition) -> None:
        self._conditions.append((name, condition))
