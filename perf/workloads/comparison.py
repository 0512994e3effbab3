"""Runs all targets with the same plans, interleaved: a round is one run of each, on a fresh cluster each time.

Complete rounds are kept even if others fail, and the result is then marked as incomplete. A workload that fails does
not prevent the next one from being run.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kscheduler.testing.controlplane import HarnessError
from perf.ratio_plot import to_svg
from perf.ratios import BARE, OURS, THEIRS, ratios_of, write_ratios
from perf.result_table import ratio_table
from perf.results import Data, Facts, Record, Results, write
from perf.workloads.execution import Outcome
from perf.workloads.suite import Plan
from perf.workloads.targets import Run

MEBIBYTE = 1024 * 1024
HALF = "half of the peak"
OWN_HALF = "half of its own peak"


@dataclass(slots=True)
class Comparison:
    """The runs of one plan."""

    plan: Plan
    wanted: int  # number of rounds planned
    targets: Sequence[str]
    rates_per_s: Mapping[str, float] = field(default_factory=dict)  # target -> its own rate; default: the plan's
    records: list[Record] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # what was wrong with a cluster after a run
    failure: str = ""  # why rounds are missing; "": none are
    rounds: int = 0  # number of complete rounds

    def run_round(self, run: Run) -> None:
        """One run of each, another one first every time."""
        first = self.rounds % len(self.targets)
        for target in (*self.targets[first:], *self.targets[:first]):
            rate = self.rates_per_s.get(target)
            plan = self.plan if rate is None else self.plan.at_rate(rate, self.plan.load)
            outcome = run(target, plan)
            record = record_of(outcome, plan, target, self.rounds + 1)
            self.records.append(record)
            self.problems += [f"{self.plan.full_name}: {target}: {problem}" for problem in outcome.problems]
            print(f"{record.title}: round {record.round}: {line(target, outcome)}", file=sys.stderr, flush=True)
        self.rounds += 1

    def run_all(self, run: Run, keep: Callable[[], None]) -> None:
        """Every round that is wanted, or those before a failure."""
        try:
            while self.rounds < self.wanted:
                self.run_round(run)
                keep()
        except HarnessError as error:
            self.failure = str(error)
            print(f"perf.workloads: error: {self.plan.full_name}: {error}", file=sys.stderr, flush=True)

    @property
    def is_complete(self) -> bool:
        """Whether there are as many rounds as were wanted."""
        return self.rounds >= self.wanted

    def halves_of_peaks(self) -> dict[str, float]:
        """Half the rate of each target that has one."""
        return {
            target: statistics.median(values) / 2
            for target in self.targets
            if (values := [rate for rate in (_rate(record, target) for record in self.records) if rate])
        }

    def at_half_of_peaks(self, *, of_its_own: bool) -> Comparison | None:
        """The same with pods that come at half the rate of the slowest target, which none is beyond.

        `of_its_own`: each at half of its own instead. With a control plane there is a bare client as well, to say what
        of the latency is that one's. None when no target has a rate.
        """
        rates = self.halves_of_peaks()
        if not rates:
            return None
        targets = list(self.targets)
        if BARE not in targets and {OURS, THEIRS} & {*targets}:
            targets.append(BARE)
            rates[BARE] = rates.get(OURS) or rates[THEIRS]
        plan = self.plan.at_rate(min(rates.values()), OWN_HALF if of_its_own else HALF)
        return Comparison(plan, self.wanted, targets, rates if of_its_own else {})


def compare(
    plans: Sequence[Plan],
    targets: Sequence[str],
    rounds: int,
    run: Run,
    keep: Callable[[Sequence[Comparison]], None],
    *,
    at_half: bool = False,
    at_own_half: bool = False,
) -> None:
    """Run all plans; `keep` is called after each round, and at the end, even if that is an error.

    `at_half`: each plan once more, with its measured pods created at half the rate of the slowest target;
    `at_own_half`: and with them created at half the rate of each target itself.
    """
    comparisons = [Comparison(plan, rounds, targets) for plan in plans]
    try:
        for comparison in list(comparisons):
            comparison.run_all(run, lambda: keep(comparisons))
            if not comparison.is_complete:
                continue
            wanted = [of_its_own for of_its_own, is_wanted in ((False, at_half), (True, at_own_half)) if is_wanted]
            rated = [found for each in wanted if (found := comparison.at_half_of_peaks(of_its_own=each))]
            position = comparisons.index(comparison) + 1
            comparisons[position:position] = rated
            for each in rated:
                each.run_all(run, lambda: keep(comparisons))
    finally:
        keep(comparisons)


def results_of(comparisons: Sequence[Comparison], started: str) -> Results:
    """All there is until now."""
    unfinished = [each for each in comparisons if not each.is_complete]
    facts = Facts(
        partial=bool(unfinished),
        rounds=max(each.wanted for each in comparisons),
        targets=tuple(comparisons[0].targets),
        started=started,
        machine={"python": platform.python_version(), "cpus": str(os.cpu_count()), "system": platform.release()},
        failures={each.plan.full_name: each.failure or "not reached" for each in unfinished},
        problems=tuple(problem for each in comparisons for problem in each.problems),
    )
    return Results([record for each in comparisons for record in each.records], facts)


def write_all(directory: Path, results: Results) -> None:
    """Figures, ratios, both as text, and the picture."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "results.json", results)
    ratios = ratios_of(results)
    write_ratios(directory / "ratios.json", ratios)
    (directory / "ratios.txt").write_text(ratio_table(ratios) + "\n")
    (directory / "ratios.svg").write_text(to_svg(ratios))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def record_of(outcome: Outcome, plan: Plan, target: str, number: int) -> Record:
    """A run's figures under the names of the results' metrics."""
    collected = outcome.collected
    metrics: dict[str, Data] = {
        "PodsPerSecond": {"Average": collected.pods / collected.seconds},
        "SchedulingThroughput": collected.throughput,
        "CreateToBound": collected.latency_ms,
        "CreateToBindRequest": collected.reaction_ms,
        "BindRequest": collected.answer_ms,
        "LastBinding": {"Duration": collected.behind_s},
        "SchedulingDuration": {"Duration": collected.seconds},
        "SchedulerCPU": {"Average": 1000 * collected.scheduler_cpu_s / collected.pods},
        "SchedulerPeakMemory": {"Max": collected.peak_memory_bytes / MEBIBYTE},
        "PodsEvicted": {"Total": float(outcome.evicted)} if outcome.evicted else {},
        "CreatedPerSecond": {"Average": collected.created_per_s} if collected.created_per_s else {},
        "ApiserverCPU": (
            {"Average": 1000 * collected.apiserver_cpu_s / collected.pods} if collected.apiserver_cpu_s else {}
        ),
    }
    return Record(plan.name, target, number, metrics, plan.load)


def line(target: str, outcome: Outcome) -> str:
    """One run in a line."""
    collected = outcome.collected
    came = (
        f" (created at {collected.created_per_s:.0f}/s, {collected.behind_s:.2f} s behind)"
        if collected.created_per_s
        else ""
    )
    beside = [f"{outcome.evicted} evicted"] if outcome.evicted else []
    beside += [f"{outcome.churned} churned"] if outcome.churned else []
    beside += [f"{len(outcome.problems)} PROBLEMS"] if outcome.problems else []
    return ", ".join(
        [
            f"{target}: {collected.pods / collected.seconds:.0f} pods/s{came}",
            f"{1000 * collected.scheduler_cpu_s / collected.pods:.2f} ms CPU a pod",
            f"p99 {collected.latency_ms['Perc99']:.0f} ms",
            f"{collected.peak_memory_bytes / MEBIBYTE:.0f} MiB",
            *beside,
        ]
    )


def _rate(record: Record, target: str) -> float:
    return record.metrics["PodsPerSecond"]["Average"] if record.target == target else 0.0
