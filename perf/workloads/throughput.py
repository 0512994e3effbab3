"""Computes SchedulingThroughput as scheduler_perf does: samples of one second each, after the first binding.

The sample in which the first pod is bound only marks the start. A second without a binding is added to the next one
with some, which then counts for both. What comes after the last full second does not count, so a short run has no
samples.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

INTERVAL_S = 1.0
PERCENTILES = (50, 90, 95, 99)


def samples(bound_s: Sequence[float], started_s: float, ended_s: float) -> list[float]:
    """Pods a second in each sample, for bindings in order of time."""
    found: list[float] = []
    counted, skipped = 0, 0
    for tick in range(1, int((ended_s - started_s) / INTERVAL_S) + 1):
        bound = bisect_right(bound_s, started_s + tick * INTERVAL_S)
        if not counted:
            counted = bound
        elif bound == counted:
            skipped += 1
        else:
            intervals = skipped + 1
            found += [(bound - counted) / (intervals * INTERVAL_S)] * intervals
            counted, skipped = bound, 0
    return found


def summary(values: Sequence[float]) -> dict[str, float]:
    """Average and percentiles, as scheduler_perf takes and calls them; of no values, nothing."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "Average": math.fsum(ordered) / len(ordered),
        **{f"Perc{part}": percentile(ordered, part) for part in PERCENTILES},
    }


def percentile(ordered: Sequence[float], part: int) -> float:
    """The smallest value that so many of a hundred do not exceed."""
    return ordered[math.ceil(len(ordered) * part / 100) - 1]
