"""Computes the report's part about real load (what pods use, not what they request).

Shares are of a node's capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kscheduler.simulator.load_history import LoadHistory, LoadSample
from kscheduler.simulator.statistics import rounded
from kscheduler.simulator.usage import RESOURCES


class LoadFigures(msgspec.Struct, frozen=True):
    """Figures of one resource over all nodes and the whole time. Deviations are between nodes at the same moment."""

    name: str
    requested: float
    requested_deviation: float
    mean: float
    deviation: float
    max: float  # the highest load of any node in any sample
    over_80_node_s: float  # seconds that nodes spent above 80 %, summed over nodes
    over_90_node_s: float
    over_100_node_s: float


class LoadSeries(msgspec.Struct, frozen=True):
    """Samples of one resource for plots.

    Each value holds from its time in the report's `time_s` until the next one's.
    """

    requested: list[float]  # mean over nodes of requested / capacity
    requested_deviation: list[float]
    mean: list[float]
    deviation: list[float]
    max: list[float]
    over_80: list[float]  # share of nodes that are above 80 %
    over_90: list[float]
    over_100: list[float]


class RealLoadReport(msgspec.Struct, frozen=True):
    resources: list[LoadFigures]
    time_s: list[float]
    series: dict[str, LoadSeries]  # resource -> its samples


def real_load_report(history: LoadHistory, start_s: float) -> RealLoadReport:
    samples = history.samples
    return RealLoadReport(
        [_figures(history, index) for index in range(len(RESOURCES))],
        [rounded(max(0.0, sample.at_s - start_s)) for sample in samples],
        {name: _series(samples, index) for index, name in enumerate(RESOURCES)},
    )


def _figures(history: LoadHistory, index: int) -> LoadFigures:
    sampled_s = history.sampled_s
    means = [integral / sampled_s if sampled_s else 0.0 for integral in history.integrals[index]]
    figures = [*means, history.highest[index], *history.over_s(index)]
    return LoadFigures(RESOURCES[index], *map(rounded, figures))


def _series(samples: Sequence[LoadSample], index: int) -> LoadSeries:
    spreads = [sample.spreads[index] for sample in samples]
    figures = [[*spread[:5], *spread.over] for spread in spreads]
    return LoadSeries(*([round(row[column], 5) for row in figures] for column in range(8)))
