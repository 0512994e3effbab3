"""Compares two results: has kscheduler's lead over kube-scheduler changed by more than the rounds differ?

    python -m perf.compare perf/baseline/500-nodes.json results/results.json
    python -m perf.compare before/results.json after/results.json --absolute      # made on the same machine

A file contains results, or ratios such as a baseline. A change counts if the ranges of the rounds do not overlap: then
the line says better or worse, and with --check the exit code is 1 if any line says worse.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perf.ratios import Spread, read_ratios, spread
from perf.results import FIGURES, ResultError, read

WITHIN = "within the spread"


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one workload, as it is in both files."""

    name: str
    figure: str
    before: Spread
    after: Spread
    more_is_better: bool = True

    @property
    def factor(self) -> float:
        """After to before, of the medians."""
        return self.after.median / self.before.median if self.before.median else float("nan")

    @property
    def verdict(self) -> str:
        if self.after.lowest > self.before.highest:
            return "better" if self.more_is_better else "worse"
        if self.after.highest < self.before.lowest:
            return "worse" if self.more_is_better else "better"
        return WITHIN


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        compared = _figures if options.absolute else _ratios
        changes = list(compared(options.before, options.after))
        notes = _notes(options.before, options.after, options.absolute)
    except ResultError as error:
        print(f"perf.compare: error: {error}", file=sys.stderr)
        return 2
    if not changes:
        print("perf.compare: error: the two have no workload in common", file=sys.stderr)
        return 2
    print("\n".join([*notes, *_table(changes)]))
    return int(options.check and any(change.verdict == "worse" for change in changes))


def _ratios(before: Path, after: Path) -> Iterable[Change]:
    """How far ahead, in both."""
    one, other = read_ratios(before), read_ratios(after)
    for work in one.workloads:
        found = other.of(work.name)
        for figure in FIGURES:
            if figure.key in work.ratios and figure.key in found:
                yield Change(work.name, figure.title, work.ratios[figure.key], found[figure.key])


def _figures(before: Path, after: Path) -> Iterable[Change]:
    """The figures themselves, of each target."""
    one, other = read(before), read(after)
    for title in one.titles():
        for target in dict.fromkeys(record.target for record in one.records):
            for figure in FIGURES:
                values, others = one.values(title, target, figure), other.values(title, target, figure)
                if values and others:
                    name = f"{title}, {target}"
                    yield Change(name, figure.title, spread(values), spread(others), figure.more_is_better)


def _notes(before: Path, after: Path, absolute: bool) -> list[str]:
    what = "figures" if absolute else "ratios of kscheduler to kube-scheduler; above 1, kscheduler is ahead"
    notes = [f"{before} to {after}: {what}"]
    return notes + [f"PARTIAL: {path}" for path in (before, after) if read_ratios(path).facts.partial]


def _table(changes: Sequence[Change]) -> Iterable[str]:
    name = ""
    for change in changes:
        if change.name != name:
            name = change.name
            yield f"\n{name}"
        yield (
            f"  {change.figure:38} {change.before!s:>26}  ->  {change.after!s:>26}"
            f"   x{change.factor:.2f}  {change.verdict}"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--absolute", action="store_true", help="compare the figures of each target, not the ratios")
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything is worse beyond the spread")
    return parser


if __name__ == "__main__":
    sys.exit(main())
