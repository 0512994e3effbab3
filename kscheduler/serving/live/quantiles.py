"""Estimates quantiles from the counts of a histogram's buckets, as Prometheus' histogram_quantile does."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Return the estimated quantile, the highest bound if it lies above that; None if nothing was observed.

    `counts`: the values in each bucket, not cumulative; the last one is of those above all bounds.
    """
    rank = share * sum(counts)
    if rank <= 0:
        return None
    below = 0
    for at, (bound, count) in enumerate(zip(bounds, counts, strict=False)):
        if count and below + count >= rank:
            low = bounds[at - 1] if at else 0.0
            return low + (bound - low) * (rank - below) / count
        below += count
    return bounds[-1]
