"""Defines the clock as a parameter of all parts that need the time, so that a simulation can control it."""

from __future__ import annotations

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
