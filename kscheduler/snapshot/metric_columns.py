"""Columns of values by node that do not come from the API objects, such as load, temperature or price.

A column has one entry for each row of the node table: a new node has NaN until a value is set, and the value of a
removed node is dropped. The owner of the values decides which are too old, and sets them to NaN.
"""

from __future__ import annotations

from typing import Protocol


class MetricColumn(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """A number that grows with each change of a value and of the assignment of nodes to rows."""
        ...

    @property
    def values(self) -> memoryview:
        """The values as doubles by row, NaN for none, as many as the node table has rows.

        Valid until the next change.
        """
        ...

    @property
    def sampled(self) -> memoryview:
        """Sampling times as doubles by row (node), in seconds of the scheduler's clock; not finite where unknown.

        As many as `values`, and valid until the next change.
        """
        ...

    @property
    def least(self) -> float:
        """The smallest value of any node; NaN if there is none."""
        ...

    @property
    def most(self) -> float: ...

    @property
    def window_s(self) -> float:
        """The time in seconds that a value is an average over; 0 for an instantaneous value."""
        ...

    @property
    def sampled_at(self) -> float:
        """The time of the newest sample in seconds of the scheduler's clock; 0 if there is none."""
        ...
