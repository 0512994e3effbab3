"""A side of a comparison that is a record: the cluster as it was, played again, and nothing is scheduled.

Why a pod was placed where it was is judged by this program's plugins: right before the record's binding is counted,
they filter and score the nodes in question. So the placements of any scheduler can be judged, if they did not depend on
more than the record holds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from kscheduler.api.objects import Pod, PodCondition, PodStatus
from kscheduler.client.informer import Handler
from kscheduler.client.kinds import PODS, Resource
from kscheduler.client.protocol import Client
from kscheduler.clock import Clock
from kscheduler.compare.attempts import take_attempt
from kscheduler.compare.pod_outcomes import outcomes_of
from kscheduler.compare.sides import Run
from kscheduler.compare.watching import Attempts, Watched
from kscheduler.config.types import Profile, SchedulerConfig
from kscheduler.errors import DecodeError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.input.decoding import json_decoder
from kscheduler.observability.metrics import Metrics
from kscheduler.record.entries import Change
from kscheduler.record.imports import open_record
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.real_run import few_collections
from kscheduler.simulator.recorded import NOTE, read_recorded
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.run import Progress, RunSettings, SchedulerUnderTest, simulate_scenario, unscheduled_condition
from kscheduler.simulator.scenario import Scenario
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.plugins import GuestPlugins

_decode_pod = json_decoder(Pod)


class RecordedSide:
    """A record, as its cluster's scheduler placed the pods. `config`: whose plugins judge the placements."""

    kind = "record"

    def __init__(self, path: str, config: SchedulerConfig, guests: GuestPlugins) -> None:
        """Read the record. Raises ConfigError, naming file and line, if it cannot be read."""
        self.name = Path(path).name
        self._scenario = _as_recorded(path)
        self.arrivals = len(self._scenario.arrivals)
        self._config = _looking_at_all(config)
        self._settings = replace(_NOBODY_SCHEDULES, release=config.release)
        self._guests = guests
        self._start_s = 0.0

    def run(self, progress: Progress | None = None) -> Run:
        with few_collections(self._scenario):
            outcome = simulate_scenario(self._scenario, lambda *_: _Idle(), self._settings, progress)
            self._start_s = outcome.accounting.start_s or 0.0
            return Run(_excused(build_report(self._scenario, outcome, {})), outcomes_of(outcome))

    def attempts(self, watched: Watched, until_s: float | None) -> Attempts | None:
        """Play the record once more, up to `until_s`, and judge the placements of these pods."""
        kept = Attempts(watched, self._start_s, counts="bindings")
        judges: list[JudgingScheduler] = []

        def make(client: Client, clock: Clock, rng: random.Random) -> SchedulerUnderTest:
            judges.append(
                JudgingScheduler(
                    client,
                    self._config,
                    kept=kept,
                    clock=clock,
                    rng=rng,
                    metrics=Metrics(process=False),
                    stopwatch=time.perf_counter,
                    options=Options(first_on_tie=True, compiled_lane=False, guests=self._guests),
                )
            )
            return _Watching(judges[0])

        limit = None if until_s is None else until_s + self._start_s
        with few_collections(self._scenario):
            simulate_scenario(self._scenario, make, replace(self._settings, max_time_s=limit))
            judges.pop().judge_waiting()
        return kept


_NOBODY_SCHEDULES = RunSettings(scheduler_names=frozenset())


def _as_recorded(path: str) -> Scenario:
    """Return the record's scenario in which every pod is bound as recorded, with the reasons of those that were not."""
    recorded = read_recorded(path, ())
    reasons = _reasons(path)
    arrivals = [
        replace(each, pod=structs.replace(each.pod, status=PodStatus(conditions=[reasons[each.pod.metadata.uid]])))
        if each.pod.metadata.uid in reasons and not each.pod.spec.node_name
        else each
        for each in recorded.scenario.arrivals
    ]
    return replace(
        recorded.scenario,
        arrivals=arrivals,
        parameters={"configuration": "as recorded"},
        notes=[note for note in recorded.scenario.notes if note != NOTE],
    )


def _reasons(path: str) -> dict[str, PodCondition]:
    """Return uid -> the last condition that says why the pod could not be scheduled."""
    found: dict[str, PodCondition] = {}
    for entry in open_record(Path(path)):
        if isinstance(entry, Change) and entry.resource == PODS.plural and b"PodScheduled" in bytes(entry.object):
            try:
                pod = _decode_pod(entry.object)
            except DecodeError:
                continue  # `read_recorded` has refused such a record
            condition = unscheduled_condition(pod)
            if condition is not None:
                found[pod.metadata.uid] = condition
    return found


def _looking_at_all(config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration with all nodes examined: which ones a scheduler had examined is not recorded."""
    profiles = tuple(structs.replace(each, percentage_of_nodes_to_score=100) for each in config.profiles)
    return structs.replace(config, percentage_of_nodes_to_score=100, profiles=profiles)


def _excused(report: Report) -> Report:
    """Return the report with violated invariants as a note: the record's scheduler decided, and times are rounded."""
    if not report.violations:
        return report
    note = f"In the record, invariants of a cluster are violated, such as: {report.violations[0]}."
    return structs.replace(report, violations=[], notes=[*report.notes, note])


class _Idle:
    """A scheduler that schedules nothing."""

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def wait_for_sync(self) -> None:
        pass

    def attempts(self) -> Mapping[str, int]:
        return {}

    def next_retry(self) -> float | None:
        return None

    def queue_of(self, pod: Pod) -> str | None:
        return None

    def held_back_by(self, uid: str) -> str:
        return ""


class _Watching(_Idle):
    """Keeps the cache of a scheduler up to date."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def run(self) -> None:
        await self._scheduler.observe()

    async def wait_for_sync(self) -> None:
        await self._scheduler.wait_for_sync()


class JudgingScheduler(Scheduler):
    """Schedules nothing, but filters and scores nodes for watched pods when others bind them. Nobody is preempted."""

    def __init__(self, *args: Any, kept: Attempts, **others: Any) -> None:
        self._kept = kept
        super().__init__(*args, **others)

    def _plugins_of(self, profile: Profile, handle: Handle) -> dict[str, list[tuple[Plugin, int]]]:
        return {point: each for point, each in super()._plugins_of(profile, handle).items() if point != "postFilter"}

    def _events(self, resource: Resource[Any], handler: Handler[Any]) -> Handler[Any]:
        return _JudgedPods(handler, self) if resource.plural == PODS.plural else handler

    def judge(self, pod: Pod, node: str) -> None:
        """Keep what the plugins say right before the pod is bound to the node; "": it leaves without one."""
        kept = self._kept
        kept.number += bool(node)
        nodes, framework = kept.watched.get(pod.key), self.profiles.get(pod.spec.scheduler_name)
        if nodes is None or framework is None:
            return
        info, state = PodInfo(pod, self.release.sums_resizes_apart), CycleState()
        at_s = self._clock.now() - kept.start_s
        found = framework.schedule_pod(state, info)
        attempt = take_attempt(framework, state, info, found, self.cache.table, nodes, at_s, kept.number)
        kept.add(pod.key, replace(attempt, node=node, message="" if node else attempt.message))

    def judge_waiting(self) -> None:
        """Judge the pods that are still without a node, in the present state."""
        for key in self._kept.watched:
            pod = self._known_pods.get(key)
            if pod is not None and not pod.spec.node_name:
                self.judge(pod, "")


class _JudgedPods:
    """Has pods judged before the handler of pods counts their binding, or their end."""

    def __init__(self, handler: Handler[Pod], judge: JudgingScheduler) -> None:
        self._handler = handler
        self._judge = judge

    def on_add(self, obj: Pod) -> None:
        self._handler.on_add(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name:
            self._judge.judge(old, new.spec.node_name)
        self._handler.on_update(old, new)

    def on_delete(self, obj: Pod) -> None:
        if not obj.spec.node_name:
            self._judge.judge(obj, "")
        self._handler.on_delete(obj)
