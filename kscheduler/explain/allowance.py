"""A time budget: a fixed share of all time, where unused time is saved up to a limit."""

from __future__ import annotations

import math


class Allowance:
    """A budget of `share` seconds for each second that passes; at most `saved_s` unused seconds are kept."""

    def __init__(self, share: float, saved_s: float) -> None:
        self._share = share
        self._saved_s = saved_s
        self._from = -math.inf  # the moment from which there is time left again

    def has_some(self, now: float) -> bool:
        return now >= self._from

    def spend(self, seconds: float, now: float) -> None:
        """Use `seconds` of the budget; beyond saved time, `seconds / share` must pass before there is more."""
        self._from = max(self._from, now - self._saved_s / self._share) + seconds / self._share
