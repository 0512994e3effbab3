"""Both schedulers over the same plans, interleaved: a round is one run of each, on a fresh control plane each time.

What is complete is kept, whatever happens to the rest, and is marked as a part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from perf.pairs import OURS, THEIRS, Measure, table
from perf.workloads.execution import Result
from perf.workloads.suite import Plan

Run = Callable[[str, Plan], Result]

MEASURES: tuple[Measure[Result], ...] = (
    Measure("pods/s", lambda result: result.pods_per_s, True),
    Measure("last created to last bound, s", lambda result: result.collected.behind_s, False),
    Measure("scheduler CPU, ms a pod", lambda result: result.cpu_ms_per_pod, False),
    Measure("scheduler peak memory, MiB", lambda result: result.peak_memory_mib, False),
    Measure("apiserver CPU, ms a pod", lambda result: result.apiserver_cpu_ms_per_pod, False),
    Measure("pods evicted", lambda result: result.evicted, False),
)


@dataclass(slots=True)
class Comparison:
    """The results of one plan."""

    plan: Plan
    wanted: int  # rounds
    rounds: list[dict[str, Result]] = field(default_factory=list)  # complete ones: scheduler -> its result
    unpaired: dict[str, Result] = field(default_factory=dict)  # of the round that is under way

    def run_round(self, run: Run) -> None:
        """One run of each, the order turned round every time."""
        number = len(self.rounds)
        for name in (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS):
            result = self.unpaired[name] = run(name, self.plan)
            print(f"{self.plan.name}: round {number + 1}: {line(result)}", file=sys.stderr, flush=True)
        self.rounds.append(self.unpaired)
        self.unpaired = {}

    @property
    def is_complete(self) -> bool:
        """Whether there are as many rounds as were wanted."""
        return len(self.rounds) >= self.wanted

    @property
    def problems(self) -> list[str]:
        """What any run found wrong."""
        runs = [result for entry in (*self.rounds, self.unpaired) for result in entry.values()]
        return [f"{result.workload}: {result.scheduler}: {problem}" for result in runs for problem in result.problems]

    def shown(self) -> str:
        """A table of the complete rounds."""
        title = f"{self.plan.name}; median of {len(self.rounds)} interleaved rounds"
        if not self.is_complete:
            title = f"PARTIAL, {len(self.rounds)} of {self.wanted} rounds: {title}"
        return table(self.rounds, MEASURES, title) if self.rounds else title

    def document(self) -> dict[str, object]:
        """All of it, for a file."""
        return {
            "workload": self.plan.name,
            "partial": not self.is_complete,
            "rounds": [_plain(entry) for entry in self.rounds],
            "unpaired": _plain(self.unpaired),
        }


def line(result: Result) -> str:
    """One run in a line."""
    collected = result.collected
    came = (
        f" (created at {collected.created_per_s:.0f}/s, {collected.behind_s:.2f} s behind)"
        if collected.created_per_s
        else ""
    )
    beside = [f"{result.evicted} evicted"] if result.evicted else []
    beside += [f"{result.churned} churned"] if result.churned else []
    beside += [f"{len(result.problems)} PROBLEMS"] if result.problems else []
    return ", ".join(
        [
            f"{result.scheduler}: {result.pods_per_s:.0f} pods/s{came}",
            f"{result.cpu_ms_per_pod:.2f} ms CPU a pod",
            f"{result.peak_memory_mib:.0f} MiB",
            *beside,
        ]
    )


def compare(plans: Sequence[Plan], rounds: int, run: Run, keep: Callable[[Sequence[Comparison]], None]) -> None:
    """Run all plans; `keep` is told after each round, and at the end of it all, also when that is a fault."""
    comparisons = [Comparison(plan, rounds) for plan in plans]
    try:
        for comparison in comparisons:
            while not comparison.is_complete:
                comparison.run_round(run)
                keep(comparisons)
    finally:
        keep(comparisons)


def write(path: Path, comparisons: Sequence[Comparison]) -> None:
    """All results as JSON, in the place of those before."""
    document = {
        "partial": not all(comparison.is_complete for comparison in comparisons),
        "workloads": [comparison.document() for comparison in comparisons],
    }
    whole = path.with_name(f"{path.name}.new")
    whole.write_text(json.dumps(document, indent=1))
    whole.replace(path)


def _plain(entry: Mapping[str, Result]) -> dict[str, object]:
    return {name: asdict(result) for name, result in entry.items()}
