"""A scheduler for simulations that keeps its attempts at some pods, with the plugins' answers for some nodes.

It decides as the scheduler does: pods that are watched are decided by the general lane, whose decisions are those of
the compiled one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kscheduler.clock import Clock
from kscheduler.compare.attempts import Attempt, take_attempt, without_details
from kscheduler.explain.decisions import NOTHING_REVIEWED, DecisionLog
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import Status
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.scheduler import Options, Scheduler
from kscheduler.simulator.chosen_pods import ChosenPodsLog
from kscheduler.snapshot.node_table import NodeTable

MOMENT_S = 1e-6  # times are as exact as this
MAX_ATTEMPTS = 8  # kept of one pod: the first half of them, and the latest

Watched = Mapping[str, Collection[str]]  # namespace/name -> names of the nodes in question


class Attempts:
    """The attempts at watched pods, by namespace/name of the pod, in the order in which they were made.

    Their times are seconds since the first arrival, which is at `start_s` of the simulation's clock. `counts`: what
    their numbers count, so that attempts of two runs can be put in order; "": nothing.
    """

    def __init__(self, watched: Watched, start_s: float = 0.0, counts: str = "decisions") -> None:
        self.watched = watched
        self.start_s = start_s
        self.counts = counts
        self.by_pod: dict[str, list[Attempt]] = {}
        self.number = 0  # of the latest attempt at any pod

    def add(self, key: str, attempt: Attempt) -> None:
        kept = self.by_pod.setdefault(key, [])
        if len(kept) == MAX_ATTEMPTS:
            del kept[MAX_ATTEMPTS // 2]
        kept.append(attempt)

    def placed_on(self, key: str, node: str, until_s: float) -> Attempt | None:
        """Return the latest attempt up to `until_s` that placed the pod on the node."""
        made = self.by_pod.get(key, ())
        return next((each for each in reversed(made) if each.node == node and each.at_s <= until_s + MOMENT_S), None)

    def rejected_near(self, key: str, at_s: float) -> Attempt | None:
        """Return the attempt nearest in time to `at_s` that rejected the pod."""
        made = [each for each in self.by_pod.get(key, ()) if not each.node]
        return min(made, key=lambda each: abs(each.at_s - at_s), default=None)


class WatchingLog(ChosenPodsLog):
    """Keeps attempts at watched pods, in place of the log of all decisions."""

    def __init__(self, kept: Attempts, table: NodeTable, clock: Clock) -> None:
        super().__init__(kept.watched, DecisionLogOptions(top_nodes=0), table, clock)
        self._kept = kept

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
        kept, pod = self._kept, queued.pod_info
        kept.number += 1
        nodes = kept.watched.get(pod.key)
        if nodes is None:
            return
        at_s = now - kept.start_s
        if looks_back:
            attempt = take_attempt(framework, state, pod, found, self._table, nodes, at_s, kept.number)
        else:
            attempt = without_details(found, nodes, at_s, kept.number)
        kept.add(pod.key, attempt)

    def placed(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], feasible: Sequence[int], now: float
    ) -> None:
        reviewed, self.reviewed = self.reviewed, NOTHING_REVIEWED
        kept = self._kept
        for queued in placed:
            kept.number += 1
            if (attempt := reviewed.get(queued.uid)) is not None:
                kept.add(queued.pod_info.key, replace(attempt, number=kept.number))

    def review(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState, found: Decision, now: float
    ) -> object:
        kept, pod = self._kept, queued.pod_info
        nodes = kept.watched.get(pod.key, ())
        return take_attempt(framework, state, pod, found, self._table, nodes, now - kept.start_s, 0)

    def bound(self, uid: str, now: float) -> None:
        pass

    def sent_back(self, uid: str, status: Status, now: float) -> None:
        pass


class WatchingScheduler(Scheduler):
    """A scheduler that keeps its attempts at watched pods in `kept`."""

    def __init__(self, *args: Any, kept: Attempts, **others: Any) -> None:
        self._kept = kept
        super().__init__(*args, **others)

    def _build_decisions(self, options: Options, stopwatch: Callable[[], float]) -> DecisionLog:
        return WatchingLog(self._kept, self.cache.table, self._clock)
