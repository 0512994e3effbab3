"""Results of benchmark runs, as the harness writes them."""

from __future__ import annotations

from collections.abc import Sequence

from perf.ratios import OURS, THEIRS
from perf.results import Facts, Record, Results

NAME = "Some/5Nodes"


def results(
    ours: Sequence[float], theirs: Sequence[float], partial: bool = False, wanted: int = 2, name: str = NAME
) -> Results:
    """Rounds of pods a second; CPU is ten times their inverse."""
    records = [
        Record(name, target, number, {"PodsPerSecond": {"Average": rate}, "SchedulerCPU": {"Average": 10 / rate}})
        for target, rates in ((OURS, ours), (THEIRS, theirs))
        for number, rate in enumerate(rates, start=1)
    ]
    return Results(records, Facts(partial, wanted, (OURS, THEIRS)))
