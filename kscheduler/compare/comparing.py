"""Compares two sides: runs them, finds the pods that landed elsewhere, and why the first of them did.

Memory is bounded: of all pods only their nodes are kept, and of those that differ, the first `limit` in the order of
decisions are explained and listed. The others are counted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec

from kscheduler import __version__
from kscheduler.compare.differences import PodDifference, explained_differences
from kscheduler.compare.domains import DomainDifferences, domain_differences
from kscheduler.compare.figures import Figure, Histogram, figures, histogram, parameters_that_differ
from kscheduler.compare.landings import PodCounts, find_landings
from kscheduler.compare.options import DEFAULT_LIMIT
from kscheduler.compare.paired_wait import PairedWait, paired_wait
from kscheduler.compare.sides import Run, Side
from kscheduler.simulator.report import Report
from kscheduler.simulator.run import Progress

MAX_UNPLACED = 1_000


class SideSummary(msgspec.Struct, frozen=True):
    name: str
    kind: str
    report: Report  # with the first MAX_UNPLACED pods without a node


class Comparison(msgspec.Struct, frozen=True):
    """Everything that the text, the JSON and the page show."""

    version: str
    a: SideSummary
    b: SideSummary
    parameters: list[tuple[str, str, str]]  # (name, in A, in B) of those that differ
    notes: list[str]
    pods: PodCounts
    differences: list[PodDifference]  # in the order of decisions: the first one is the root of those that follow
    not_listed: int  # further pods that landed elsewhere
    figures: list[Figure]
    domains: list[DomainDifferences]  # zones, racks and so on: by each label that the reports group nodes by
    pending: Histogram
    paired: PairedWait | None  # None if no pod was placed in both, or the times are not known

    @property
    def differs(self) -> bool:
        return bool(self.pods.different or self.pods.only_in_a or self.pods.only_in_b)


class ShowsProgress(Protocol):
    def __call__(self, side: Side) -> AbstractContextManager[Progress | None]:
        """Return a context that shows the progress of a side's run."""
        ...


def silently(side: Side) -> AbstractContextManager[Progress | None]:
    return nullcontext()


def compare(a: Side, b: Side, limit: int = DEFAULT_LIMIT, shown: ShowsProgress = silently) -> Comparison:
    """Run both sides and compare them. At most `limit` differing pods are explained.

    Raises ConfigError if the sides have no pod in common.
    """
    # 1. Both runs.
    with shown(a) as progress:
        run_a = a.run(progress)
    with shown(b) as progress:
        run_b = b.run(progress)
    # 2. The pods that landed elsewhere, the first ones by the time of their binding.
    notes: list[str] = []
    counts, first = find_landings(a, b, run_a.pods, run_b.pods, limit, notes)
    # 3. Why they did.
    differences = explained_differences(a, b, run_a.pods, run_b.pods, first, notes)
    # 4. Figures side by side.
    return Comparison(
        version=__version__,
        a=_summary(a, run_a),
        b=_summary(b, run_b),
        parameters=parameters_that_differ(run_a.report, run_b.report),
        notes=notes,
        pods=counts,
        differences=differences,
        not_listed=counts.different - len(differences),
        figures=figures(run_a.report, run_b.report),
        domains=domain_differences(run_a, run_b),
        pending=histogram(run_a.report.latency, run_b.report.latency),
        paired=paired_wait(run_a.pods, run_b.pods),
    )


def _summary(side: Side, run: Run) -> SideSummary:
    unplaced = run.report.unplaced[:MAX_UNPLACED]
    return SideSummary(side.name, side.kind, msgspec.structs.replace(run.report, unplaced=unplaced))
