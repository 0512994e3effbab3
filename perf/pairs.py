"""Formats two schedulers' results side by side: medians, and ratios computed within a round, since machines drift."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

OURS, THEIRS = "kscheduler", "kube-scheduler"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Measure(Generic[Result]):
    """One figure that is compared, i.e. one line of the table."""

    title: str
    figure: Callable[[Result], float]
    more_is_better: bool


def table(rounds: Sequence[Mapping[str, Result]], measures: Sequence[Measure[Result]], title: str) -> str:
    """Medians of both, and the ratio in our favour: above 1 we are ahead."""
    lines = [title, f"{'':30} {OURS:>12} {THEIRS:>15}   ratio (lowest .. highest)"]
    for measure in measures:
        ours = [measure.figure(entry[OURS]) for entry in rounds]
        theirs = [measure.figure(entry[THEIRS]) for entry in rounds]
        lines.append(
            f"{measure.title:30} {statistics.median(ours):12.2f} {statistics.median(theirs):15.2f}   "
            f"{_spread(ratios(ours, theirs, more_is_better=measure.more_is_better))}"
        )
    return "\n".join(lines)


def ratios(ours: Sequence[float], theirs: Sequence[float], *, more_is_better: bool) -> list[float]:
    """How far ahead we are in each round; a round in which one of the two is nothing has no ratio."""
    return [
        mine / other if more_is_better else other / mine
        for mine, other in zip(ours, theirs, strict=True)
        if mine and other
    ]


def _spread(found: Sequence[float]) -> str:
    return f"{statistics.median(found):.2f} ({min(found):.2f} .. {max(found):.2f})" if found else "-"
