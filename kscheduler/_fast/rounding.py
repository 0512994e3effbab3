"""Rounds numbers as Go does."""

from __future__ import annotations

import math


def round_half_away(value: float) -> int:
    """Return the nearest integer, halves away from zero, as Go's math.Round does.

    Python's round rounds halves to the even neighbour, and adding a half before truncating would round twice.
    """
    whole = math.trunc(value)
    if abs(value - whole) < 0.5:
        return whole
    return whole + (1 if value > 0 else -1)
