"""The figures of two runs side by side: pods, pending time, utilisation, fragmentation, preemptions, speed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from kscheduler.api.resources import PODS
from kscheduler.simulator.report import Latency, Report
from kscheduler.sweep.metrics import Timing, figures_of, metric_named, speed_figure

FIGURES = (
    "placed",
    "unplaced",
    "pending-mean",
    "pending-p50",
    "pending-p90",
    "pending-p99",
    "pending-max",
    "peak-pending",
    "preemptions",
    "attempts",
    "nodes-used",
    "simulated",
)
OF_GANGS = ("gangs-ran", "gangs-holding", "gangs-idle", "gangs-wait-mean")
OF_RESOURCE = ("allocated", "allocated-peak", "imbalance", "fragmentation")
OF_MACHINE = ("decisions/s", "cpu")
BARS = 12  # of a histogram, at most


class Figure(msgspec.Struct, frozen=True):
    """One figure of both runs, under the name that it has in a sweep. None: a run has no such figure."""

    name: str
    text: str
    a: float | None
    b: float | None
    is_more_better: bool
    is_measured: bool  # on this machine, so that it differs from run to run


class Histogram(msgspec.Struct, frozen=True):
    """The shares of placed pods by the time from creation to binding: above the bound before, up to `bounds_s`."""

    bounds_s: list[float]
    a: list[float]
    b: list[float]


def figures(a: Report, b: Report) -> list[Figure]:
    """Return the figures that at least one of the reports has."""
    of_a, of_b = _figures_of(a), _figures_of(b)
    names = [*FIGURES, *OF_GANGS]
    names += [
        f"{kind}:{resource}"
        for resource in dict.fromkeys(each.name for report in (a, b) for each in report.resources)
        if resource != PODS
        for kind in OF_RESOURCE
    ]
    names += OF_MACHINE
    return [
        Figure(name, metric.text, of_a.get(name), of_b.get(name), metric.is_more_better, metric.is_speed)
        for name in names
        if name in of_a or name in of_b
        for metric in (metric_named(name),)
    ]


def _figures_of(report: Report) -> dict[str, float]:
    found = figures_of(report)
    if not report.latency.count:
        found = {name: value for name, value in found.items() if not name.startswith("pending-")}
    if report.gangs is not None and not report.gangs.ran:
        del found["gangs-wait-mean"]
    if not report.attempts:
        found.pop("attempts", None)
    if report.machine is not None:
        timing = Timing.of("", report.machine)
        found |= {name: speed_figure(name, timing) for name in OF_MACHINE}
    return found


def parameters_that_differ(a: Report, b: Report) -> list[tuple[str, str, str]]:
    """Return (name, in A, in B) of the parameters that both reports have, with different values."""
    both = ((name, value, b.parameters[name]) for name, value in a.parameters.items() if name in b.parameters)
    return [each for each in both if each[1] != each[2]]


# --- pending time -------------------------------------------------------------------------------------------------


def histogram(a: Latency, b: Latency) -> Histogram:
    """Return the histogram of both, with bounds of 1, 2, 5, 10... that cover both; empty without a placed pod."""
    points = [*a.distribution, *b.distribution]
    if not points:
        return Histogram([], [], [])
    bounds = _bounds(min(value for value, _ in points), max(value for value, _ in points))
    return Histogram(bounds, _shares(a.distribution, bounds), _shares(b.distribution, bounds))


def _bounds(low: float, high: float) -> list[float]:
    """Return rising bounds, at most BARS: the first is at least `low`, the last at least `high`."""
    found = [bound for bound in _series(low) if bound]
    until = next(index for index, bound in enumerate(found) if bound >= high)
    bounds = found[: until + 1]
    step = math.ceil(len(bounds) / BARS)
    return bounds[::-1][::step][::-1]


def _series(low: float) -> Iterator[float]:
    """Yield 1, 2, 5, 10 and so on times a power of ten, from the first that is at least `low`, to 10^12 s."""
    power = math.floor(math.log10(low)) if low > 0 else -6
    for exponent in range(max(power, -6), 13):
        for digit in (1, 2, 5):
            bound = float(f"{digit}e{exponent}")
            if bound >= low:
                yield bound


def _shares(distribution: Sequence[tuple[float, float]], bounds: Sequence[float]) -> list[float]:
    """Return the share of the sample between each bound and the one before."""
    cumulated = [max((share for value, share in distribution if value <= bound), default=0.0) for bound in bounds]
    return [round(share - before, 6) for before, share in zip([0.0, *cumulated], cumulated, strict=False)]
