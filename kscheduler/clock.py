"""Time as a value that is handed in, so that the core never reads a clock and a simulation can own it."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The two clocks that are handed to the parts that need time."""

    def now(self) -> float:
        """Monotonic seconds since an arbitrary start; never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, for what other programs read (Lease, Events, conditions). May jump."""
        ...
