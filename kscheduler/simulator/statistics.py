"""Percentiles and deviations of finite samples. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Where a distribution is sampled: every hundredth, and finer at the tail that people look for.
_SHARES = (*(index / 100 for index in range(1, 100)), 0.995, 0.999, 1.0)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that at least `share` of the sample does not exceed (nearest rank); 0.0 of nothing."""
    if not ordered:
        return 0.0
    # 0.95 * 20 is a hair more than 19: round away what no sample is large enough to show.
    return ordered[max(0, math.ceil(round(share * len(ordered), 9)) - 1)]


def distribution(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """(value, share of the sample not above it), rising in both, at a hundred shares or fewer."""
    points: list[tuple[float, float]] = []
    for share in _SHARES if ordered else ():
        value = percentile(ordered, share)
        if points and points[-1][0] == value:
            points.pop()
        points.append((value, share))
    return points


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation."""
    if not values:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))


def rounded(value: float) -> float:
    """Round to nine significant digits: more than any figure of a report means, without noise at the end."""
    return float(f"{value:.9g}")
