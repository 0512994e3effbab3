"""Keeps the decisions about a sample of a simulation's pods, with what the plugins answered, for its report.

Pods of the sample are decided by the general lane, whose decisions are those of the compiled one. So a report is the
same with and without them, but for the decisions themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.clock import Clock
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.documents import Document, decision_document, nodes_inside
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.record import DecisionRecord
from kscheduler.explain.ring import PER_POD
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.chosen_pods import ChosenPodsLog
from kscheduler.simulator.report import Decisions, DecisionsOfPod
from kscheduler.simulator.scenario import Scenario
from kscheduler.snapshot.node_table import NodeTable

MAX_BYTES = 64 * 1024 * 1024  # of all decisions kept; a page of so many is still shown in a few seconds


def sample(scenario: Scenario, size: int | None) -> frozenset[str]:
    """Return the namespace/name of `size` arriving pods, spread evenly over their order; of all if None."""
    arriving = [arrival.pod.key for arrival in scenario.arrivals if not arrival.pod.spec.node_name]
    if size is None or size >= len(arriving):
        return frozenset(arriving)
    return frozenset(arriving[place * len(arriving) // size] for place in range(size))


class KeptDecisions:
    """The decisions about `pods`, up to the limits of memory: those decided longest ago are dropped first."""

    def __init__(self, pods: frozenset[str], max_bytes: int = MAX_BYTES) -> None:
        self.pods = pods
        self.max_bytes = max_bytes
        self.log: SampleLog | None = None  # of the scheduler, once that is built

    def of_report(self, start_s: float) -> Decisions:
        """Return them for the report, by pod. `start_s`: the first arrival on the simulation's clock."""
        if self.log is None:
            return Decisions([], 0)

        def since_start(moment_s: float) -> float:
            return round(moment_s - start_s, 6)

        domains: dict[tuple[str, ...], int] = {}

        def document(record: DecisionRecord) -> Document:
            made = decision_document(record, since_start)
            if made["confinedToLeftOut"]:  # few domains are in many decisions: each is listed once
                made["confinedToDomain"] = domains.setdefault(tuple(nodes_inside(record)), len(domains))
            return made

        ring = self.log.ring
        found = [
            DecisionsOfPod(latest.key, list(map(document, ring.of(latest.uid)))) for latest in ring.latest.values()
        ]
        return Decisions(found, ring.evicted, list(map(list, domains)))


class SampleLog(ChosenPodsLog):
    """Records the decisions about some pods only, but all of them in full."""

    def __init__(self, pods: frozenset[str], max_bytes: int, table: NodeTable, clock: Clock) -> None:
        options = DecisionLogOptions(max_records=PER_POD * len(pods), max_bytes=max_bytes)
        super().__init__(pods, options, table, clock)

    def decided(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        found: Decision | Rejection,
        now: float,
        *,
        looks_back: bool = True,
    ) -> None:
        if self.is_asked_for(queued.pod_info, now):
            super().decided(queued, framework, state, found, now, looks_back=looks_back)


class SamplingScheduler(Scheduler):
    """A scheduler that keeps its decisions about the pods of `kept`."""

    def __init__(self, *args: Any, kept: KeptDecisions, **others: Any) -> None:
        self._kept = kept
        super().__init__(*args, **others)

    def _build_decisions(self, options: Options, stopwatch: Callable[[], float]) -> DecisionLog:
        kept = self._kept
        kept.log = log = SampleLog(kept.pods, kept.max_bytes, self.cache.table, self._clock)
        return log
