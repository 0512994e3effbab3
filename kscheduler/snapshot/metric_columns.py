"""One value for each node from outside the cluster's objects: load, temperature, price.

A column has the rows of the node table and follows it: a node that comes is absent (NaN) until a value is set, one
that goes takes its value along. Whoever owns the values decides which are too old, and sets them to NaN.
"""

from __future__ import annotations

from typing import Protocol


class MetricColumn(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Grows with each change, also of which node has which row."""
        ...

    @property
    def values(self) -> memoryview:
        """Doubles by row, NaN where there is none; as long as the node table. Good until the next change."""
        ...

    @property
    def sampled(self) -> memoryview:
        """Doubles by row: when the value was sampled, in seconds of the scheduler's clock; not finite where unknown.

        As long as `values`, and good until the next change.
        """
        ...

    @property
    def least(self) -> float:
        """Of all values that are there; NaN if none is."""
        ...

    @property
    def most(self) -> float: ...

    @property
    def window_s(self) -> float:
        """The time a value is an average over; 0 for a moment."""
        ...

    @property
    def sampled_at(self) -> float:
        """When the newest sample was taken, in seconds of the scheduler's clock; 0 if there is none."""
        ...
