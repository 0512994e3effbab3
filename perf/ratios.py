"""Computes how far kscheduler is ahead of kube-scheduler: ratios within a round, and their spread over rounds.

Ratios are computed within a round because a machine's speed drifts. Above 1 means that kscheduler is ahead, whether
more or less is better. Ratios are more comparable between machines than figures, so a baseline consists of ratios.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from perf.results import FIGURES, Facts, Figure, ResultError, Results, read

OURS, THEIRS, BARE = "kscheduler", "kube-scheduler", "bare-client"
BARE_EVENTS = "bare-events"  # the same client, which writes each pod's Event, too
KIND = "ratios"


class Spread(msgspec.Struct, frozen=True):
    """A figure over several rounds: median, lowest and highest."""

    median: float
    lowest: float
    highest: float
    rounds: int

    def __str__(self) -> str:
        return f"{shown(self.median)} ({shown(self.lowest)} .. {shown(self.highest)})"


class WorkloadRatios(msgspec.Struct, frozen=True):
    """The ratios of one workload."""

    name: str
    ratios: dict[str, Spread]  # key of a figure -> ratio


class Ratios(msgspec.Struct, frozen=True, tag_field="kind", tag=KIND):
    """The ratios of a complete run; a baseline is stored in this form."""

    ours: str
    theirs: str
    workloads: tuple[WorkloadRatios, ...]
    facts: Facts

    def of(self, name: str) -> Mapping[str, Spread]:
        return next((each.ratios for each in self.workloads if each.name == name), {})


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(statistics.median(values), min(values), max(values), len(values))


def shown(value: float) -> str:
    """Three figures, and no point behind hundreds."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratios_of(results: Results) -> Ratios:
    """From complete pairs of runs; a round in which one of the two is nothing has no ratio."""
    found = []
    for title in results.titles():
        ratios = {}
        for figure in FIGURES:
            values = _in_our_favour(results, title, figure)
            if values:
                ratios[figure.key] = spread(values)
        if ratios:
            found.append(WorkloadRatios(title, ratios))
    return Ratios(OURS, THEIRS, tuple(found), results.facts)


def _in_our_favour(results: Results, title: str, figure: Figure) -> list[float]:
    rounds: dict[int, dict[str, float]] = {}  # round -> target -> value
    for record in results.records:
        value = record.figure(figure)
        if record.title == title and value is not None:
            rounds.setdefault(record.round, {})[record.target] = value
    pairs = [(values.get(OURS), values.get(THEIRS)) for _, values in sorted(rounds.items())]
    return [ours / theirs if figure.more_is_better else theirs / ours for ours, theirs in pairs if ours and theirs]


def write_ratios(path: Path, ratios: Ratios) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(ratios), indent=1) + b"\n")


def read_ratios(path: Path) -> Ratios:
    """From a file of ratios, or from results."""
    try:
        content = path.read_bytes()
        document = msgspec.json.decode(content)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise ResultError(f"{path}: {error}") from None
    if not isinstance(document, dict) or "kind" not in document:
        return ratios_of(read(path))
    try:
        return msgspec.json.decode(content, type=Ratios)
    except msgspec.MsgspecError as error:
        raise ResultError(f"{path}: {error}") from None
