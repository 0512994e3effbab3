"""Computes means, percentiles and deviations of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

# The shares at which `distribution` reports values: every hundredth, and finer ones near 1.
_SHARES = (*(index / 100 for index in range(1, 100)), 0.995, 0.999, 1.0)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value such that at least `share` of the sorted sample is not above it.

    0.0 for an empty sample.
    """
    if not ordered:
        return 0.0
    # 0.95 * 20 is slightly more than 19: the rounding removes such errors, and changes no result.
    return ordered[max(0, math.ceil(round(share * len(ordered), 9)) - 1)]


def distribution(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Return at most about a hundred points (value, share of the sorted sample at or below it), rising in both."""
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
    """Return the population standard deviation; 0.0 for an empty sample."""
    if not values:
        return 0.0
    middle = mean(values)
    return math.sqrt(math.fsum([(value - middle) ** 2 for value in values]) / len(values))


def rounded(value: float) -> float:
    """Round to nine significant digits, which removes floating-point noise but no meaningful digit of a report."""
    return float(f"{value:.9g}")
