"""Whom this program would preempt in a case, in the oracle's format: the real cache, framework and plugin."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kscheduler.api.decode import convert_object
from kscheduler.api.objects import Pod, PodCondition, PodDisruptionBudget
from kscheduler.api.pod_groups import PodGroup
from kscheduler.cache.cache import Cache
from kscheduler.config.types import DefaultPreemptionArgs
from kscheduler.errors import InternalError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_runs import Candidate, DryRun, Findings
from kscheduler.framework.evictions import Endings, Evictions
from kscheduler.framework.interface import Handle, PostFilterResult, ProfileHandle
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.plugins.defaultpreemption.dry_run import WhatIfDryRun
from kscheduler.framework.plugins.defaultpreemption.plugin import DefaultPreemption
from kscheduler.framework.plugins.dynamicresources.plugin import DynamicResources
from kscheduler.framework.plugins.registry import build
from kscheduler.framework.preemption.candidates import cheapest
from kscheduler.framework.preemption.executor import Executor
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision as Placed
from kscheduler.framework.status import STATUS_LABELS, Code, code_of
from kscheduler.framework.status import Status as OurStatus
from kscheduler.gangs.doors import KUBERNETES_DOOR, Doors, gang_of_pod_group
from kscheduler.gangs.member_stages import MemberStages
from kscheduler.gangs.preemption.kubernetes_victims import KubernetesVictims
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.rules import UPSTREAM_1_37
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.devices import Devices
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo
from tests.parity.case import Case, Object
from tests.parity.detours import fill, read_node, read_pod
from tests.parity.detours_devices import inform_about_devices, mislead_about_devices
from tests.parity.detours_volumes import inform, mislead
from tests.parity.generate_gangs import GangCase
from tests.parity.generate_preemption import has_equals
from tests.parity.oracle import Preempted, Status, Tried
from tests.parity.ours import fill_around, read_config
from tests.parity.ours_devices import NotedClaimWrites, Ticks, all_taken_back
from tests.support.checks import check_cache

NOW = 1_800_000_000.0  # after every start
BY_WHAT_IF = "what-if"  # filters are asked again and again
BY_DEFAULT = "default"  # as the plugin does it by default


@functools.cache
def forms() -> Sequence[str]:
    handle = Handle(table=Cache().table, rng=random.Random(0))
    default = DefaultPreemption(handle, DefaultPreemptionArgs())._dry_run
    return (BY_WHAT_IF,) if isinstance(default, WhatIfDryRun) else (BY_WHAT_IF, BY_DEFAULT)


class PreemptionWorld:
    """A cluster with the framework of its profile; `form` says how dry runs are made."""

    def __init__(self, case: Case, form: str) -> None:
        config = read_config(json.dumps(case.config), case.release)
        self._cache = Cache()
        self._evictions = NotedEvictions()
        self._nominations = Nominations()
        for pod in case.cluster.get("nominated", ()):
            self._nominations.nominate(read_pod(pod, config.release), None)
        profiles: dict[str, ProfileHandle] = {}
        groups = _groups(case, self._cache) if isinstance(case, GangCase) else None
        self._claims = NotedClaimWrites()
        self._handle = Handle(
            table=self._cache.table,
            rng=random.Random(0),
            devices=Devices(config.release),
            claims=self._claims,
            stopwatch=Ticks(),
            profiles=profiles,
            nominations=self._nominations,
            evictions=self._evictions,
            release=config.release,
            victim_groups=groups,
        )
        if groups is not None:
            groups.handle = self._handle
        for budget in case.cluster.get("podDisruptionBudgets", ()):
            self._handle.budgets.set(convert_object(budget, PodDisruptionBudget))
        fill_around(self._handle, case.cluster)
        profile = config.profiles[0]
        points = build(profile, self._handle)
        (preemption,) = (plugin for plugin, _ in points["postFilter"] if isinstance(plugin, DefaultPreemption))
        self._watched = _Watched(preemption, form, self._handle)
        points["postFilter"] = [
            (self._watched if plugin is preemption else _Before(plugin, self._watched, self._claims), weight)
            for plugin, weight in points["postFilter"]
        ]
        self._framework = profiles[profile.scheduler_name] = Framework(
            profile.scheduler_name,
            points,
            self._handle,
            observer=Measurements(),
            stopwatch=lambda: 0.0,
            percentage_of_nodes_to_score=100,
            first_on_tie=True,
        )
        self._current = {pod["metadata"]["uid"]: pod for pod in case.cluster.get("current", case.pending)}
        for pod in self._current.values():
            self._evictions.show(read_pod(pod, config.release).pod)
        self._fill(case)

    def _fill(self, case: Case) -> None:
        detours = random.Random(case.seed)
        devices, release = self._handle.devices, self._handle.release
        mislead(self._handle.volumes, case.cluster, detours)
        mislead_about_devices(devices, case.cluster, release, detours)
        if has_equals(case):  # then their order on the node decides, which is that in which they came
            for node in case.cluster["nodes"]:
                self._cache.set_node(read_node(node))
            for pod in case.cluster["pods"]:
                self._cache.set_pod(read_pod(pod, self._handle.release))
        else:
            fill(self._cache, case, lambda document: self.preempt(document, Preempted()))
        inform(self._handle.volumes, case.cluster, detours)
        inform_about_devices(devices, case.cluster, release, detours)

    def preempt(self, document: Object, theirs: Preempted) -> Preempted:
        """`theirs` says in which order nodes are tried, which is by chance."""
        pod = read_pod(document, self._handle.release)
        current = self._current.get(pod.uid, document)
        self._nominations.nominate(read_pod(current, self._handle.release), None)
        found = self._watched.begin([tried.node for tried in theirs.tried])
        self._evictions.begin_notes()
        self._claims.begin_notes()
        outcome = self._framework.schedule_pod(CycleState(), pod)
        self._nominations.remove(pod.uid)
        if isinstance(outcome, Placed):
            found.host = outcome.node_name
        elif outcome.status.code is Code.ERROR:
            found.fault = outcome.message
        else:
            found.failure, found.nomination = outcome.message, outcome.nomination
            found.ended, found.cleared = self._evictions.ended_pods, self._evictions.cleared
        return found

    def check(self) -> None:
        """Raises InternalError if decisions have left traces."""
        check_cache(self._cache)


def _groups(case: GangCase, cache: Cache) -> KubernetesVictims:
    """The groups of a case; their pods are noticed when they come to the cache."""
    registry = Registry(Doors([KUBERNETES_DOOR]), UPSTREAM_1_37)
    for group in case.pod_groups:
        registry.set_gang(gang_of_pod_group(convert_object(group, PodGroup)))
    cache.follow(MemberStages(registry, will_return=lambda uid: False, changed=lambda key: None))
    return KubernetesVictims(cache, registry)


class _Watched:
    """DefaultPreemption, the last of the PostFilter plugins, and what it and those before it were heard to say."""

    name = DefaultPreemption.name

    def __init__(self, plugin: DefaultPreemption, form: str, handle: Handle) -> None:
        self.reasons_before: list[str] = []  # reasons of the plugins before it
        self._plugin = plugin
        self._handle = handle
        made: DryRun = plugin._dry_run
        if form == BY_WHAT_IF:
            groups, made = handle.victim_groups, WhatIfDryRun(handle)
            made = made if groups is None else groups.dry_run(made)
        self._dry_run = plugin._dry_run = _WatchedDryRun(made)

    def begin(self, order: Sequence[str]) -> Preempted:
        self._found = self._dry_run.found = Preempted()
        self.reasons_before.clear()
        # Pods that were ended for one preemptor are there for the next: nobody must remember them.
        self._plugin._executor = Executor(replace(self._handle, endings=Endings()), self.name)
        self._dry_run.order = {name: place for place, name in enumerate(order)}
        return self._found

    def end(self, status: OurStatus | None, before: Sequence[str] = ()) -> None:
        """Note what a plugin answered that ends the chain, after the reasons of the plugins before it."""
        self._found.code = STATUS_LABELS[code_of(status)]
        self._found.message = ", ".join([*before, *(status.reasons if status is not None else ())])

    def note_claims(self, plugin: DynamicResources, state: CycleState, pod: PodInfo, claims: NotedClaimWrites) -> None:
        """Note which claims the plugin has taken back, and which others it might have."""
        found = self._found
        found.deallocated, found.deleted = claims.deallocated, claims.deleted
        if found.deallocated or found.deleted:
            found.taken_back = all_taken_back(plugin, state, pod, claims)

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, OurStatus]
    ) -> tuple[PostFilterResult | None, OurStatus | None]:
        result, status = self._plugin.post_filter(state, pod, statuses)
        self.end(status, self.reasons_before if code_of(status) is Code.UNSCHEDULABLE else ())
        if code_of(status) is Code.SUCCESS and result is not None:
            self._found.chosen = result.nominated_node_name or ""
        return result, status


class _Before:
    """A PostFilter plugin before DefaultPreemption: what it says comes before what that says."""

    def __init__(self, plugin: Any, watched: _Watched, claims: NotedClaimWrites) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._watched = watched
        self._claims = claims

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: Mapping[str, OurStatus]
    ) -> tuple[PostFilterResult | None, OurStatus | None]:
        result, status = self._plugin.post_filter(state, pod, statuses)
        if isinstance(self._plugin, DynamicResources):
            self._watched.note_claims(self._plugin, state, pod, self._claims)
        if status is not None and status.code is Code.UNSCHEDULABLE:
            self._watched.reasons_before += status.reasons
        else:
            self._watched.end(status)
        return result, status


class _WatchedDryRun:
    def __init__(self, inner: DryRun) -> None:
        self._inner = inner
        self.found = Preempted()
        self.order: dict[str, int] = {}  # node -> its place among those that kube-scheduler tried

    def search(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], wanted: int) -> Findings:
        nodes = sorted(nodes, key=lambda node: self.order.get(node.name, len(nodes)))
        found = self._inner.search(state, pod, nodes, wanted)
        self.found.promising, self.found.wanted = len(nodes), wanted
        candidates = found.candidates
        self.found.tried = [
            *(_candidate_of(candidate) for candidate in candidates),
            *(Tried(name, status=_reported(status)) for name, status in found.statuses.items()),
        ]
        self.found.candidates = [candidate.node_name for candidate in candidates]
        self.found.equals = _equals(candidates)
        return found


def _reported(status: OurStatus) -> Status:
    return Status(STATUS_LABELS[status.code], status.plugin, list(status.reasons))


def _candidate_of(candidate: Candidate) -> Tried:
    victims = [victim.uid for victim in candidate.victims]
    return Tried(candidate.node_name, victims=victims, violations=candidate.violations)


def _equals(candidates: Sequence[Candidate]) -> list[str]:
    """Those that win if they come first."""
    if not candidates:
        return []
    best = cheapest(candidates, NOW)
    return [candidate.node_name for candidate in candidates if cheapest([candidate, best], NOW) is candidate]


class NotedEvictions(Evictions):
    """A cluster in which everything that is asked for is done at once, and noted."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}  # namespace/name -> pod that the watch shows
        self.begin_notes()

    def show(self, pod: Pod) -> None:
        self._pods[pod.key] = pod

    def begin_notes(self) -> None:
        self.ended_pods: list[str] = []  # uids
        self.cleared: list[str] = []  # names

    def current(self, key: str) -> Pod | None:
        return self._pods.get(key)

    def stop_binding(self, uid: str, plugin: str) -> bool:
        return False

    async def mark(self, victim: Pod, condition: PodCondition) -> bool:
        return True

    async def delete(self, victim: Pod) -> bool:
        self.ended_pods.append(victim.metadata.uid)
        return True

    async def clear_nomination(self, pod: Pod) -> None:
        self.cleared.append(pod.metadata.name)

    def record_event(self, victim: Pod, preemptor: Pod, note: str) -> None:
        pass

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            return
        work.close()
        raise InternalError("a preemption waits for something, and here everything is done at once")

    async def until(self, holds: Callable[[], bool], within_s: float) -> bool:
        return True

    def try_again(self, uid: str) -> None:
        raise InternalError(f"the preemption of pod {uid} went wrong")

    def wall(self) -> float:
        return NOW
