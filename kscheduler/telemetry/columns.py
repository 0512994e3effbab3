"""The values of a metric up to a maximum age, as a column with one entry per row of the node table, i.e. per node.

Values change only in `refresh`, except that rows follow the node table by themselves. Callers pass the current time as
an argument.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from kscheduler.config.metric_policy import Freshness
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.telemetry.sample_book import SampleBook


class BookColumn:
    """The values of one metric by node: the newest samples that are not too old.

    A sample older than `freshness` allows does not count; with `freshness` None, samples of any age do.
    """

    def __init__(self, book: SampleBook, rows: NodeRows, freshness: Freshness | None, now: float) -> None:
        self._book = book
        self._rows = rows
        self._freshness = freshness
        self._version = next(rows.versions)  # unique, so that a new column is not taken for the one it replaces
        self._array = array("d")  # row -> value
        self._values = memoryview(self._array)
        self._times_array = array("d")  # row -> when its value was sampled; infinite: no value
        self._times = memoryview(self._times_array)
        self._least = self._most = math.nan
        self._sampled_at = -math.inf
        self.present = 0  # rows with a value
        self.expires_at = math.inf  # when the oldest value becomes too old
        self.refresh(now)

    # --- what plugins read ---

    @property
    def name(self) -> str:
        return self._book.name

    @property
    def version(self) -> int:
        self._rows.follow()
        return self._version

    @property
    def values(self) -> memoryview:
        self._rows.follow()
        return self._values

    @property
    def sampled(self) -> memoryview:
        self._rows.follow()
        return self._times

    @property
    def least(self) -> float:
        self._rows.follow()
        return self._least

    @property
    def most(self) -> float:
        self._rows.follow()
        return self._most

    @property
    def window_s(self) -> float:
        return self._book.window_s

    @property
    def sampled_at(self) -> float:
        return self._sampled_at if math.isfinite(self._sampled_at) else 0.0

    # --- what is written ---

    def refresh(self, now: float) -> bool:
        """Copy the newest samples of the nodes that are still fresh into the column.

        Returns whether a value or its time changed.
        """
        self._rows.follow()
        book = self._book
        oldest = -math.inf if self._freshness is None else now - book.cadence.max_age_s(self._freshness)
        times = book.sampled_at
        values = book.values[:]
        first = min(times, default=math.inf)
        if first <= oldest:
            first = math.inf
            for row, taken_at in enumerate(times):
                if taken_at <= oldest:
                    values[row] = math.nan
                elif taken_at < first:
                    first = taken_at
        self.expires_at = math.inf if self._freshness is None else first + (now - oldest)
        if values.tobytes() == self._array.tobytes() and times.tobytes() == self._times_array.tobytes():
            return False
        self._show(values, times[:])
        self._sampled_at = book.newest_at
        self._changed()
        return True

    def _show(self, values: array[float], times: array[float]) -> None:
        self._array, self._values = values, memoryview(values)
        self._times_array, self._times = times, memoryview(times)

    def _changed(self) -> None:
        present = [value for value in self._array if value == value]
        self.present = len(present)
        self._least = min(present, default=math.nan)
        self._most = max(present, default=math.nan)
        self._version = next(self._rows.versions)

    def clear(self, changed: Iterable[int]) -> None:
        """Clear the values of these rows of the node table, whose node is new, was replaced or was removed."""
        growth = len(self._rows) - len(self._array)
        if growth:  # not in place: a caller may hold a view of the old array
            self._show(
                self._array + array("d", [math.nan]) * growth, self._times_array + array("d", [math.inf]) * growth
            )
        for row in changed:
            self._array[row] = math.nan
            self._times_array[row] = math.inf
        self._changed()
