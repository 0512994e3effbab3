"""A circuit breaker for a metric source: stop polling after repeated failures, and probe now and then.

Callers pass the current time as an argument.

closed ──failures in a row──▶ open ──time is over──▶ half-open ──success──▶ closed
                               ▲                        │
                               └────────failure─────────┘
"""

from __future__ import annotations

import enum

from kscheduler.config.metric_policy import Breaker as Settings


class BreakerState(enum.IntEnum):
    """The state of a breaker; the numbers are exported as values of a Prometheus metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


class Breaker:
    def __init__(self, settings: Settings) -> None:
        self._allowed = max(settings.failures, 1)
        self._open_s = settings.open_for.seconds
        self._open_until = 0.0
        self.state = BreakerState.CLOSED
        self.failures = 0  # in a row

    def wait_s(self, now: float) -> float:
        """Return the seconds for which the source must not be polled.

        At 0 an open breaker becomes half-open, to probe once.
        """
        if self.state is not BreakerState.OPEN:
            return 0.0
        left = self._open_until - now
        if left > 0:
            return left
        self.state = BreakerState.HALF_OPEN
        return 0.0

    def succeeded(self) -> None:
        self.state = BreakerState.CLOSED
        self.failures = 0

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.state is BreakerState.HALF_OPEN or self.failures >= self._allowed:
            self.state = BreakerState.OPEN
            self._open_until = now + self._open_s
