"""The clock as a parameter, so that the core never reads the system's clock and a simulation can control time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A source of monotonic and wall-clock time, passed to every part that needs the time."""

    def now(self) -> float:
        """Monotonic seconds since an arbitrary start; never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, for what other programs read (Lease, Events, conditions). May jump."""
        ...
