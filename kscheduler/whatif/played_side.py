"""One side of a what-if: a scenario that is simulated once, with how long every pod waited."""

from __future__ import annotations

import math

from kscheduler.compare.pod_outcomes import outcomes_of
from kscheduler.compare.sides import Run, SimulatedSide
from kscheduler.errors import InternalError
from kscheduler.simulator.accounting import Accounting
from kscheduler.simulator.real_run import few_collections, run_real_scheduler
from kscheduler.simulator.report import build_report
from kscheduler.simulator.run import Ending, Outcome, Progress
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.statistics import mean, percentile, rounded
from kscheduler.sweep.metrics import figures_of

FOR_EVER = math.inf


class PlayedSide(SimulatedSide):
    """A scenario and a configuration, simulated when the result is first needed.

    Waiting times are those of all pods that the simulated scheduler was to place: a pod that would wait on waits for
    ever, and one that left without a node waited until then.
    """

    _run: Run | None = None
    _waits_s: list[float]  # sorted
    _unused: list[str]  # names of nodes on which no pod was placed
    figures: dict[str, float]  # by the names that a sweep has for them

    @property
    def scenario(self) -> Scenario:
        return self._scenario

    @property
    def is_played(self) -> bool:
        return self._run is not None

    def run(self, progress: Progress | None = None) -> Run:
        """Return the result of the simulation. Raises InternalError if one of its invariants was violated."""
        if self._run is None:
            with few_collections(self._scenario):
                outcome, machine = run_real_scheduler(
                    self._arguments, self.config, self._scenario, self._guests, progress
                )
                report = build_report(self._scenario, outcome, self._parameters, machine)
                if report.violations:
                    raise InternalError(f"an invariant of the simulation was violated: {report.violations[0]}")
                self._start_s = outcome.accounting.start_s or 0.0
                self._waits_s = _waits(outcome)
                self._unused = _without_placements(outcome.accounting)
                self.figures = figures_of(report)
                self._run = Run(report, outcomes_of(outcome))
        return self._run

    def waited_s(self, share: float) -> float:
        """Return the seconds that this share of the pods did not wait longer than; FOR_EVER if some of it waits on."""
        self.run()
        return rounded(percentile(self._waits_s, share))

    def unused(self, prefix: str) -> int:
        """Return how many nodes whose names begin so never got a pod besides those that they had from the start."""
        self.run()
        return sum(name.startswith(prefix) for name in self._unused)

    @property
    def mean_wait_s(self) -> float:
        self.run()
        waits = self._waits_s
        return FOR_EVER if waits and waits[-1] == FOR_EVER else rounded(mean(waits))


def _without_placements(books: Accounting) -> list[str]:
    used = {record.row for record in books.records.values() if not record.existing}
    return [row.name for index, row in enumerate(books.rows) if index not in used]


def _waits(outcome: Outcome) -> list[float]:
    books = outcome.accounting
    end_s = books.now_s if outcome.ending is Ending.TIME_LIMIT else FOR_EVER
    waits = []
    for record in books.records.values():
        if not record.existing and record.last_seen.spec.scheduler_name in outcome.scheduler_names:
            until_s = record.bound_s if record.bound_s is not None else record.left_s
            waits.append((end_s if until_s is None else until_s) - record.created_s)
    return sorted(round(wait, 6) for wait in waits)
