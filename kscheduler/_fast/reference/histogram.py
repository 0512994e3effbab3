"""Histograms of the metrics endpoint: the number of observed values in each bucket."""

from __future__ import annotations

from bisect import bisect_left
from typing import final


@final
class Histogram:
    """The number of observed values in each bucket; a value equal to a bound belongs to the bucket below it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Build a histogram with these upper bounds, ascending; one more bucket holds the values above the last."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def bounds(self) -> tuple[float, ...]:
        """Return the upper bounds of all buckets but the last."""
        return self._bounds

    @property
    def counts(self) -> list[int]:
        """Return the number of values in each bucket, not cumulative."""
        return list(self._counts)

    @property
    def sum(self) -> float:
        """Return the sum of all values."""
        return self._sum

    @property
    def count(self) -> int:
        """Return the number of all values."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_many(self, value: float, times: int) -> None:
        """Count `value` `times` times, such as the duration that the members of a batch share."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
