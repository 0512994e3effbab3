"""Time as a value that is handed in, so that the core never reads a clock and a simulation can own it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """What the parts that need time are given."""

    def now(self) -> float:
        """Monotonic seconds since an arbitrary start; never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, for what other programs read (Lease, Events, conditions). May jump."""
        ...


class ManualClock:
    """A clock that moves only when told to: for tests of the core."""

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
