"""A share of all time that something may take, with a little saved up for when it is needed."""

from __future__ import annotations

import math


class Allowance:
    """Time is an argument. What was not spent is kept up to `saved_s`."""

    def __init__(self, share: float, saved_s: float) -> None:
        self._share = share
        self._saved_s = saved_s
        self._from = -math.inf  # not before this moment is there any left

    def has_some(self, now: float) -> bool:
        return now >= self._from

    def spend(self, seconds: float, now: float) -> None:
        """A share of the time must pass before there is more, but for what was saved."""
        self._from = max(self._from, now - self._saved_s / self._share) + seconds / self._share
