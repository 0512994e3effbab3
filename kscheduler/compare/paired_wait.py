"""Compares how long each pod waited for its binding in two runs."""

from __future__ import annotations

import math

import msgspec

from kscheduler.compare.pod_outcomes import PodOutcomes
from kscheduler.simulator.statistics import rounded


class PairedWait(msgspec.Struct, frozen=True):
    """How the pods that both runs placed waited for their binding: the difference of each pod, B - A."""

    pods: int
    mean_s: float
    standard_error_s: float | None  # of that mean; None for a single pod
    sooner: int  # pods bound sooner after their creation in B than in A
    later: int
    equal: int


def paired_wait(of_a: PodOutcomes | None, of_b: PodOutcomes | None) -> PairedWait | None:
    """Return how the pods placed in both runs waited; None if there is none, or the times are not known."""
    if of_a is None or of_b is None:
        return None
    pods = sooner = later = 0
    total = squares = 0.0
    for key, row_a in of_a.rows.items():
        row_b = of_b.rows.get(key)
        difference = math.nan if row_b is None else of_b.waited_s(row_b) - of_a.waited_s(row_a)
        if math.isnan(difference):
            continue
        difference = round(difference, 6)
        pods += 1
        sooner += difference < 0
        later += difference > 0
        total += difference
        squares += difference * difference
    if not pods:
        return None
    mean = total / pods
    error = math.sqrt(max(0.0, squares - pods * mean * mean) / (pods - 1) / pods) if pods > 1 else None
    return PairedWait(
        pods, rounded(mean), None if error is None else rounded(error), sooner, later, pods - sooner - later
    )
