"""The clock, a parameter of all parts that need the time, so that a simulation can control it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic and wall-clock time, in seconds."""

    def now(self) -> float:
        """Return monotonic seconds since an arbitrary start; never goes back."""
        ...

    def wall(self) -> float:
        """Return seconds since the Unix epoch, for times that other programs read (Lease, Events, conditions).

        May jump.
        """
        ...


class SystemClock:
    """The machine's clocks. Implements `Clock`."""

    # The built-in functions themselves: a pod takes a dozen readings, and a method would double each one's cost.
    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
