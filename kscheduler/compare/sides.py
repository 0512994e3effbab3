"""The two sides of a comparison: each can be run, and then say what its plugins answered for some pods."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from kscheduler.compare.pod_outcomes import PodOutcomes, outcomes_of
from kscheduler.compare.watching import Attempts, Watched, WatchingScheduler
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import InternalError
from kscheduler.simulator.options import SimulateArguments
from kscheduler.simulator.real_run import few_collections, run_real_scheduler
from kscheduler.simulator.report import Report, build_report
from kscheduler.simulator.run import Progress
from kscheduler.simulator.scenario import Scenario
from kscheduler.wasm.plugins import GuestPlugins


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one side: its report, and the node of each pod. None: the side does not say."""

    report: Report
    pods: PodOutcomes | None


class Side(Protocol):
    name: str
    kind: str  # such as "simulated", for people
    arrivals: int  # how many pods will arrive while it runs

    def run(self, progress: Progress | None = None) -> Run:
        """Run the side, once."""
        ...

    def attempts(self, watched: Watched, until_s: float | None) -> Attempts | None:
        """Return the attempts at these pods up to a time, None: to the end. None if a side does not know them.

        Call it after `run`.
        """
        ...


class SimulatedSide:
    """A scenario, simulated with a scheduler of this configuration."""

    kind = "simulated"

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        config: SchedulerConfig,
        arguments: SimulateArguments,
        guests: GuestPlugins,
        *,
        parameters: dict[str, str] | None = None,
    ) -> None:
        """`parameters`: what its report says of it besides the scenario's own."""
        self.name = name
        self.config = config
        self.arrivals = len(scenario.arrivals)
        self._scenario = scenario
        self._arguments = arguments
        self._guests = guests
        self._parameters = parameters or {}
        self._start_s: float | None = None

    def run(self, progress: Progress | None = None) -> Run:
        with few_collections(self._scenario):
            outcome, machine = run_real_scheduler(self._arguments, self.config, self._scenario, self._guests, progress)
            self._start_s = outcome.accounting.start_s or 0.0
            report = build_report(self._scenario, outcome, self._parameters, machine)
            return Run(report, outcomes_of(outcome))

    def attempts(self, watched: Watched, until_s: float | None) -> Attempts | None:
        """Simulate once more, up to `until_s`: the decisions are the same, and those at these pods are looked into."""
        if self._start_s is None:
            raise InternalError("attempts were asked for before the run")
        kept = Attempts(watched, self._start_s)
        limit = _earliest(self._arguments.max_time_s, None if until_s is None else until_s + self._start_s)
        with few_collections(self._scenario):
            run_real_scheduler(
                replace(self._arguments, max_time_s=limit),
                self.config,
                self._scenario,
                self._guests,
                build=partial(WatchingScheduler, kept=kept),
            )
        return kept


def _earliest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None), default=None)
