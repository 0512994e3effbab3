"""Bounds for the metric values of one answer: fixed ones of the configuration, and outlier bounds around the median."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kscheduler.config.metric_policy import Clamp
from kscheduler.config.quantity import parse_double

MIN_FOR_OUTLIERS = 3  # among fewer values no outlier can be identified


@dataclass(frozen=True, slots=True)
class Bounds:
    least: float = -math.inf
    most: float = math.inf

    def apply(self, value: float) -> float:
        return min(max(value, self.least), self.most)


class Clamping:
    def __init__(self, clamp: Clamp) -> None:
        self._fixed = Bounds(
            -math.inf if clamp.min is None else parse_double(clamp.min),
            math.inf if clamp.max is None else parse_double(clamp.max),
        )
        self._outliers = clamp.outliers

    def bounds(self, values: Iterable[float]) -> Bounds:
        """Return the bounds for these finite values of one answer.

        If more than half of the values are equal, their deviation does not show what is an outlier; then only the fixed
        bounds apply.
        """
        fixed = self._fixed
        if self._outliers is None:
            return fixed
        within = sorted(fixed.apply(value) for value in values)
        if len(within) < MIN_FOR_OUTLIERS:
            return fixed
        middle = median(within)
        deviation = median(sorted(abs(value - middle) for value in within))
        if deviation == 0.0:
            return fixed
        reach = self._outliers * deviation
        return Bounds(max(fixed.least, middle - reach), min(fixed.most, middle + reach))


def median(ascending: Sequence[float]) -> float:
    half = len(ascending) // 2
    if len(ascending) % 2:
        return ascending[half]
    return ascending[half - 1] / 2 + ascending[half] / 2  # halved first, so that the sum cannot overflow
