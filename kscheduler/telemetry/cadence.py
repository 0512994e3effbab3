"""How often new samples come, as seen; and how old a sample may therefore be. Time is an argument."""

from __future__ import annotations

from collections import deque

from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.clamping import median

REMEMBERED = 5  # intervals; one long silence among them does not move their median


class Cadence:
    """`interval_s`: how often the source is asked. New samples cannot be seen more often."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._intervals: deque[float] = deque(maxlen=REMEMBERED)
        self._last: float | None = None

    def saw(self, now: float) -> None:
        """An answer with new samples came. One that repeats what is known says nothing."""
        if self._last is not None:
            self._intervals.append(now - self._last)
        self._last = now

    @property
    def seconds(self) -> float:
        seen = median(sorted(self._intervals)) if self._intervals else 0.0
        return max(seen, self._interval_s)

    def max_age_s(self, freshness: Freshness) -> float:
        """How old a sample may be."""
        if freshness.max_age.nanoseconds > 0:
            return freshness.max_age.seconds
        adapted = freshness.cadences * self.seconds
        return min(max(adapted, freshness.at_least.seconds), freshness.at_most.seconds)
