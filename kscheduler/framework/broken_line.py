"""A piecewise linear function from a utilization to a score, as scoring strategies are configured with.

Shared by plugins whose arguments have a `shape`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.framework.interface import MAX_NODE_SCORE

MAX_CONFIGURED_SCORE = 10  # the scores of a shape are given as 0..10

Shape = Sequence[tuple[int, int]]  # (utilization 0..100 ascending, score 0..10); at least one point


def score_on_line(shape: Shape, utilization: int) -> int:
    """Return the score 0..100 at a utilization; constant before the shape's first point and after its last."""
    left, left_score = shape[0]
    for right, right_score in shape:
        if utilization <= right:
            return _between(left, left_score, right, right_score, utilization)
        left, left_score = right, right_score
    return left_score * MAX_NODE_SCORE // MAX_CONFIGURED_SCORE


def _between(left: int, left_score: int, right: int, right_score: int, utilization: int) -> int:
    scale = MAX_NODE_SCORE // MAX_CONFIGURED_SCORE
    if right == left:
        return right_score * scale
    rise = scale * (right_score - left_score) * (utilization - left)
    # Go divides toward zero, and the line may fall.
    step = abs(rise) // (right - left)
    return left_score * scale + (step if rise >= 0 else -step)
