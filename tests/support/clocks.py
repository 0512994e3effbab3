"""The clocks of tests: one that the test moves, and the machine's where real servers are involved."""

from __future__ import annotations

from kscheduler.clock import SystemClock


class ManualClock:
    """A clock that moves only when the test advances it."""

    def __init__(self, now: float = 0.0, epoch: float = 1_700_000_000.0) -> None:
        self._now = now
        self._epoch = epoch

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._epoch + self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock advances by zero seconds or more, not {seconds}")
        self._now += seconds

    def set_wall_clock(self, seconds: float) -> None:
        """Move the wall clock alone, forwards or back, as an administrator or NTP does."""
        self._epoch += seconds


CLOCK = SystemClock()
