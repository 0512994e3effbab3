"""Compares the results of a sweep: means by cell, differences by pairs of equal seeds, and a Pareto front.

A cell is a trace on a cluster with a configuration. A pair is two runs of equal trace, cluster and seed, one with the
baseline; the difference of the two has less variance than that of two means, because both met the same chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from kscheduler import __version__
from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.simulator.statistics import mean, rounded
from kscheduler.sweep.metrics import SPEED, metric_named, speed_figure
from kscheduler.sweep.results import PlanFile, Results
from kscheduler.sweep.runs import Run
from kscheduler.sweep.spelling import did_you_mean

ENOUGH_SEEDS = 5  # with fewer pairs a standard error says little: its own error is above a third
MAX_FAILURES = 20


class Summary(msgspec.Struct, frozen=True):
    """Statistics of one metric over the seeds of a cell; no value of `deviation` for fewer than two runs."""

    runs: int
    mean: float
    deviation: float | None  # of the sample
    min: float
    max: float


class Cell(msgspec.Struct, frozen=True):
    trace: str
    cluster: str
    config: str
    runs: int
    failed: int
    missing: int
    metrics: dict[str, Summary]


class Difference(msgspec.Struct, frozen=True):
    """How one configuration differs from the baseline in one metric, over pairs of runs with equal seeds."""

    trace: str
    cluster: str
    config: str
    metric: str
    pairs: int
    mean: float  # of configuration - baseline
    standard_error: float | None  # of that mean; None for fewer than two pairs
    wins: int  # pairs in which the configuration is better
    losses: int
    ties: int

    @property
    def is_clear(self) -> bool:
        """True if the mean is further from zero than two standard errors."""
        return self.standard_error is not None and abs(self.mean) > 2 * self.standard_error


class FrontPoint(msgspec.Struct, frozen=True):
    """One configuration's mean quality and mean speed, and whether no other one is better in both."""

    trace: str
    cluster: str
    config: str
    quality: float
    speed: float
    on_front: bool


class Failure(msgspec.Struct, frozen=True):
    run: Run
    error: str


class SweepReport(msgspec.Struct, frozen=True):
    """Everything that the text, JSON and HTML forms show."""

    version: str
    runs: int
    finished: int
    failed: int
    metrics: list[str]
    baseline: str  # a configuration's name; "": there is one configuration only
    quality: str  # the metric on the Pareto front beside the speed
    cells: list[Cell]
    differences: list[Difference]
    front: list[FrontPoint]
    failures: list[Failure]
    warnings: list[str]


def choose_baseline(name: str, configs: Sequence[str]) -> str:
    """Return the baseline: the configuration of this name, or without a name the first of several; "" for one.

    Raises ConfigError, with the nearest name, if there is no such configuration.
    """
    if name and name not in configs:
        raise ConfigError(f"--baseline: {did_you_mean('configuration', name, list(configs))}")
    return name or (configs[0] if len(configs) > 1 else "")


def build_report(plan: PlanFile, results: Results) -> SweepReport:
    """Compute the report of a sweep, or of the part of it that is finished."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in plan.runs:
        groups.setdefault((run.trace, run.cluster, run.config), []).append(run)
    values = {
        metric: {run.key: value for run in plan.runs if (value := _value(results, run, metric)) is not None}
        for metric in dict.fromkeys((*plan.metrics, SPEED))
    }
    cells = [_cell(names, runs, plan.metrics, values, results) for names, runs in groups.items()]
    differences = _differences(groups, plan, values) if plan.baseline else []
    quality = next((metric for metric in plan.metrics if not metric_named(metric).is_speed), plan.metrics[0])
    failures = [
        Failure(run, found.error)
        for run in plan.runs
        if (found := results.by_key.get(run.key)) is not None and found.error
    ]
    return SweepReport(
        version=__version__,
        runs=len(plan.runs),
        finished=sum(run.key in results.by_key for run in plan.runs),
        failed=len(failures),
        metrics=plan.metrics,
        baseline=plan.baseline,
        quality=quality,
        cells=cells,
        differences=differences,
        front=_front(groups, values, quality),
        failures=failures,
        warnings=[*plan.warnings, *_warnings(plan, differences, values)],
    )


def _value(results: Results, run: Run, metric: str) -> float | None:
    if metric_named(metric).is_speed:
        timing = results.timings.get(run.key)
        return None if timing is None else speed_figure(metric, timing)
    found = results.by_key.get(run.key)
    return None if found is None else found.figures.get(metric)


def _cell(
    names: tuple[str, str, str],
    runs: Sequence[Run],
    metrics: Sequence[str],
    values: dict[str, dict[str, float]],
    results: Results,
) -> Cell:
    found = [results.by_key[run.key] for run in runs if run.key in results.by_key]
    summaries = {}
    for metric in metrics:
        numbers = [values[metric][run.key] for run in runs if run.key in values[metric]]
        if numbers:
            summaries[metric] = _summary(numbers)
    failed = sum(bool(result.error) for result in found)
    return Cell(*names, len(found) - failed, failed, len(runs) - len(found), summaries)


def _summary(numbers: Sequence[float]) -> Summary:
    deviation = sample_deviation(numbers)
    return Summary(
        len(numbers),
        rounded(mean(numbers)),
        None if deviation is None else rounded(deviation),
        rounded(min(numbers)),
        rounded(max(numbers)),
    )


def sample_deviation(numbers: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample, with n - 1; None for fewer than two numbers."""
    if len(numbers) < 2:
        return None
    middle = mean(numbers)
    return math.sqrt(math.fsum((number - middle) ** 2 for number in numbers) / (len(numbers) - 1))


# --- differences --------------------------------------------------------------------------------------------------


def _differences(
    groups: dict[tuple[str, str, str], list[Run]], plan: PlanFile, values: dict[str, dict[str, float]]
) -> list[Difference]:
    found = []
    for (trace, cluster, config), runs in groups.items():
        base = {run.seed: run.key for run in groups.get((trace, cluster, plan.baseline), ())}
        if config == plan.baseline:
            continue
        for metric in plan.metrics:
            of = values[metric]
            pairs = [
                (of[run.key], of[base[run.seed]])
                for run in runs
                if run.seed in base and run.key in of and base[run.seed] in of
            ]
            if pairs:
                found.append(paired_difference(trace, cluster, config, metric, pairs))
    return found


def paired_difference(
    trace: str, cluster: str, config: str, metric: str, pairs: Sequence[tuple[float, float]]
) -> Difference:
    """Return the statistics of pairs (configuration, baseline), of which there is at least one."""
    differences = [here - there for here, there in pairs]
    better = 1 if metric_named(metric).is_more_better else -1
    spread = sample_deviation(differences)
    wins = sum(difference * better > 0 for difference in differences)
    losses = sum(difference * better < 0 for difference in differences)
    return Difference(
        trace,
        cluster,
        config,
        metric,
        len(pairs),
        rounded(mean(differences)),
        None if spread is None else rounded(spread / math.sqrt(len(pairs))),
        wins,
        losses,
        len(pairs) - wins - losses,
    )


# --- quality and speed --------------------------------------------------------------------------------------------


def _front(
    groups: dict[tuple[str, str, str], list[Run]], values: dict[str, dict[str, float]], quality: str
) -> list[FrontPoint]:
    """Return the points of each trace and cluster with several configurations."""
    points: dict[tuple[str, str], list[tuple[str, float, float]]] = {}
    for (trace, cluster, config), runs in groups.items():
        qualities = [values[quality][run.key] for run in runs if run.key in values[quality]]
        speeds = [values[SPEED][run.key] for run in runs if run.key in values[SPEED]]
        if qualities and speeds:
            points.setdefault((trace, cluster), []).append((config, mean(qualities), mean(speeds)))
    better = 1 if metric_named(quality).is_more_better else -1
    return [
        FrontPoint(trace, cluster, config, rounded(of_quality), rounded(speed), is_on_front)
        for (trace, cluster), listed in points.items()
        if len(listed) > 1
        for (config, of_quality, speed), is_on_front in zip(
            listed, on_front([(of_quality * better, speed) for _, of_quality, speed in listed]), strict=True
        )
    ]


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return for each point whether no other one is at least as great in both values and greater in one."""
    return [not any(x >= one and y >= other and (x > one or y > other) for x, y in points) for one, other in points]


# --- warnings -----------------------------------------------------------------------------------------------------


def _warnings(plan: PlanFile, differences: Iterable[Difference], values: dict[str, dict[str, float]]) -> list[str]:
    found = []
    fewest = min((difference.pairs for difference in differences), default=ENOUGH_SEEDS)
    if fewest < ENOUGH_SEEDS:
        found.append(
            f"Some differences rest on {counted(fewest, 'pair')} of seeds: their standard errors "
            f"say little; take at least {ENOUGH_SEEDS} seeds."
        )
    absent = [metric for metric in plan.metrics if not values[metric] and not metric_named(metric).is_speed]
    return found + [f"No run has a figure for {metric}." for metric in absent]
