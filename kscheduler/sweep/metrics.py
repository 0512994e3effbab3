"""Computes the figures of one run that a sweep compares, from the run's report.

A figure of one resource has its name behind a colon, such as `allocated:cpu`. Figures about speed are measured on the
machine, and differ from run to run; all others are functions of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.simulator.gang_book import GangRuns
from kscheduler.simulator.report import Machine, Report, ResourceFigures
from kscheduler.sweep.spelling import did_you_mean

PREEMPTED = "Preempted"  # the reason of the Event that a victim gets


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: what it is, and whether more or less of it is better."""

    text: str
    is_more_better: bool
    is_speed: bool = False


_OF_RUN: dict[str, tuple[Metric, Callable[[Report], float]]] = {
    "placed": (Metric("share of the pods that got a node", True), lambda report: _placed(report)),
    "unplaced": (
        Metric("pods that got no node", False),
        lambda report: report.pods.unplaced + report.pods.left_unplaced,
    ),
    "pending-mean": (
        Metric("seconds from creation to binding of the placed pods, mean", False),
        lambda report: report.latency.mean_s,
    ),
    "pending-p50": (
        Metric("seconds from creation to binding of the placed pods, median", False),
        lambda report: report.latency.p50_s,
    ),
    "pending-p90": (
        Metric("seconds from creation to binding of the placed pods, 90th percentile", False),
        lambda report: report.latency.p90_s,
    ),
    "pending-p99": (
        Metric("seconds from creation to binding of the placed pods, 99th percentile", False),
        lambda report: report.latency.p99_s,
    ),
    "pending-max": (
        Metric("seconds from creation to binding of the placed pods, longest", False),
        lambda report: report.latency.max_s,
    ),
    "peak-pending": (Metric("pods that waited at once, at most", False), lambda report: report.peak_pending),
    "preemptions": (Metric("pods that were preempted", False), lambda report: report.events.get(PREEMPTED, 0)),
    "attempts": (Metric("scheduling attempts", False), lambda report: sum(report.attempts.values())),
    "nodes-used": (
        Metric("nodes that ever had a pod", False),
        lambda report: report.nodes.total - report.nodes.never_used,
    ),
    "nodes-empty": (
        Metric("nodes without a pod at the busiest moment", True),
        lambda report: report.nodes.empty_when_busiest,
    ),
    "simulated": (Metric("seconds of virtual time until the end", False), lambda report: report.simulated_s),
}
_OF_RESOURCE: dict[str, tuple[Metric, Callable[[ResourceFigures], float | None]]] = {
    "allocated": (Metric("share of the capacity requested by pods, over time", True), lambda each: each.average),
    "allocated-peak": (Metric("share of the capacity requested by pods, at most", True), lambda each: each.peak),
    "allocated-final": (Metric("share of the capacity requested by pods, at the end", True), lambda each: each.final),
    "imbalance": (
        Metric("deviation / mean of the nodes' use at the busiest moment", False),
        lambda each: each.balance_busiest.variation,
    ),
    "imbalance-average": (
        Metric("deviation / mean of the nodes' use, over time", False),
        lambda each: each.balance_average.variation,
    ),
    "fragmentation": (
        Metric("free capacity where typical pods do not fit, at the busiest moment", False),
        lambda each: each.fragmentation_busiest,
    ),
    "fragmentation-final": (
        Metric("free capacity where typical pods do not fit, at the end", False),
        lambda each: each.fragmentation_final,
    ),
}
_OF_GANGS: dict[str, tuple[Metric, Callable[[GangRuns], float]]] = {
    "gangs-ran": (Metric("share of the gangs whose minimum got nodes", True), lambda gangs: gangs.ran / gangs.total),
    "gangs-holding": (
        Metric("gangs with nodes for fewer pods than their minimum, at the end", False),
        lambda gangs: gangs.holding,
    ),
    "gangs-idle": (
        Metric("seconds that pods stood on nodes before their gang had its minimum, summed over pods", False),
        lambda gangs: gangs.idle_pod_s,
    ),
    "gangs-wait-mean": (
        Metric("seconds from a gang's first pod until its minimum had nodes, mean", False),
        lambda gangs: gangs.wait_mean_s,
    ),
}
SPEED = "decisions/s"
_OF_MACHINE: dict[str, tuple[Metric, Callable[[Timing], float]]] = {
    SPEED: (Metric("scheduling attempts a second of this machine", True, True), lambda timing: timing.decisions_per_s),
    "wall": (Metric("seconds that the run took on this machine", False, True), lambda timing: timing.wall_s),
    "cpu": (Metric("seconds of CPU that the run took on this machine", False, True), lambda timing: timing.cpu_s),
    "memory": (
        Metric("MiB that the process had at most by the end of the run", False, True),
        lambda timing: timing.peak_memory_mib,
    ),
}

# With which the names of figures begin that are times, and fractions of one.
_SECONDS = ("pending", "simulated", "wall", "cpu", "gangs-idle", "gangs-wait")
_SHARES = ("placed", "allocated", "fragmentation", "gangs-ran")

DEFAULT_METRICS = ("placed", "pending-p99", "allocated:cpu", "fragmentation:cpu", "imbalance:cpu", "preemptions", SPEED)


class Timing(msgspec.Struct, frozen=True):
    """The cost of one run on this machine."""

    key: str
    wall_s: float
    cpu_s: float
    decisions_per_s: float
    peak_memory_mib: float

    @classmethod
    def of(cls, key: str, machine: Machine) -> Timing:
        return cls(key, machine.wall_s, machine.cpu_s, machine.decisions_per_s, machine.peak_memory_mib)


def metric_named(name: str) -> Metric:
    """Return the metric of a valid name."""
    return _metric(name) or Metric(name, True)


def unit_of(name: str) -> str:
    """Return the unit of the figure of this name: "seconds", "share" (a fraction of one), or "" for a number."""
    if name.startswith(_SHARES):
        return "share"
    return "seconds" if name.startswith(_SECONDS) else ""


def check_metric(where: str, name: str) -> None:
    """Raise ConfigError, with the nearest valid name, unless a metric has this name."""
    if _metric(name) is None:
        kind, colon, resource = name.partition(":")
        if colon and resource:
            valid = [f"{known}:{resource}" for known in _OF_RESOURCE]
        elif kind in _OF_RESOURCE:
            raise ConfigError(f'{where}: "{name}" is of one resource: expected it behind a colon, such as {kind}:cpu')
        else:
            valid = [*_OF_RUN, *_OF_GANGS, *_OF_MACHINE, *(f"{known}:cpu" for known in _OF_RESOURCE)]
        raise ConfigError(f"{where}: {did_you_mean('metric', name, valid)}")


def _metric(name: str) -> Metric | None:
    kind, _, resource = name.partition(":")
    if resource:
        return _OF_RESOURCE[kind][0] if kind in _OF_RESOURCE else None
    found = _OF_RUN.get(name) or _OF_GANGS.get(name) or _OF_MACHINE.get(name)
    return None if found is None else found[0]


def figures_of(report: Report) -> dict[str, float]:
    """Return all figures of a run that do not depend on the machine, by name."""
    figures = {name: float(figure(report)) for name, (_, figure) in _OF_RUN.items()}
    for resource in report.resources:
        for name, (_, of_resource) in _OF_RESOURCE.items():
            value = of_resource(resource)
            if value is not None:
                figures[f"{name}:{resource.name}"] = value
    if report.gangs is not None:
        figures |= {name: float(figure(report.gangs)) for name, (_, figure) in _OF_GANGS.items()}
    return figures


def speed_figure(name: str, timing: Timing) -> float:
    return _OF_MACHINE[name][1](timing)


def _placed(report: Report) -> float:
    asked = report.pods.total - report.pods.existing
    return report.pods.placed / asked if asked else 1.0
