"""The newest sample of one metric for each node: its value, and when it was taken.

A sample is refused and counted if it is not a number, older than the known one, or of an unknown node. Values are
clamped, then smoothed. A sample stays until a newer one arrives or the node is removed; readers decide which are too
old. Callers pass the current time as an argument.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable

from kscheduler.config.metric_policy import Metric
from kscheduler.framework.telemetry import SampleSteps
from kscheduler.telemetry.cadence import Cadence
from kscheduler.telemetry.clamping import Bounds, Clamping
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.telemetry.source import NOT_A_NUMBER, OLDER, UNKNOWN_NODE, Reading, Sample

# A source's clock may be this much ahead of ours. A known time further ahead is not trusted: it must not keep out
# samples with earlier times.
CREDIBLE_S = 60.0
MISSED = 2.5  # after this many intervals without a reading, a poll was skipped or failed
NODES_TIMED = 250  # nodes of each reading whose intervals are measured; more would not change the median


class SampleBook:
    def __init__(self, metric: Metric, rows: NodeRows, interval_s: float) -> None:
        self.name = metric.name
        self.cadence = Cadence(interval_s)
        self._clamping = Clamping(metric.clamp)
        self._smoothing = metric.smoothing
        self._window_s = metric.window.seconds
        self._said_window_s = 0.0
        self._rows = rows
        self.values = array("d")  # row -> value; NaN: none
        self.sampled_at = array("d")  # row -> when taken, seconds of our clock; infinite: none
        self._stamps = array("d")  # row -> Unix seconds, as the source reported
        self._read = array("d")  # row -> value as read, neither clamped nor smoothed
        self._clamped = array("d")  # row -> value clamped, not smoothed
        self._came_at = array("d")  # row -> when its sample arrived, by our clock
        self._changed_at = array("d")  # row -> when its value changed, by our clock
        self._columns = (  # with what stands in a row without a sample
            (self.values, math.nan),
            (self.sampled_at, math.inf),
            (self._stamps, -math.inf),
            (self._read, math.nan),
            (self._clamped, math.nan),
            (self._came_at, math.inf),
            (self._changed_at, math.inf),
        )
        self.clear(())
        # For some nodes of the current reading: seconds since the previous sample, and since the last change of value.
        self._sampled_after: list[float] = []
        self._changed_after: list[float] = []
        self._last_at = -math.inf  # when the last reading arrived
        self._steady_since = -math.inf  # since then no reading was missed; intervals across a gap are not measured
        self._interval_s = interval_s
        self.newest_at = -math.inf  # when the newest sample was taken, by our clock; -infinite: no sample yet

    @property
    def window_s(self) -> float:
        return self._window_s or self._said_window_s

    def bounds(self, reading: Reading) -> Bounds:
        """Return the bounds to which values are clamped, for all values of one answer.

        Also remember the window over which these values are averages.
        """
        self._said_window_s = reading.window_s
        return self._clamping.bounds(sample.value for sample in reading.samples.values() if math.isfinite(sample.value))

    def take(
        self, samples: Iterable[tuple[str, Sample]], bounds: Bounds, now: float, wall: float, refused: Counter[str]
    ) -> int:
        """Store some samples of an answer that arrived at `now`, and return how many were new.

        `wall` is the same moment in Unix seconds. Samples that are not stored are counted in `refused`, by reason.
        """
        rows, smoothing = self._rows, self._smoothing
        rows.follow()
        if now - self._last_at > MISSED * self._interval_s:
            self._steady_since = now
        taken = 0
        for node, (value, stamp) in samples:
            row = rows.find(node)
            if row is None:
                refused[UNKNOWN_NODE] += 1
                continue
            if not math.isfinite(value) or (stamp is not None and not math.isfinite(stamp)):
                refused[NOT_A_NUMBER] += 1
                continue
            if stamp is None:
                stamp = wall
            known = self._stamps[row]
            if stamp <= known and (known <= wall + CREDIBLE_S or stamp == known):
                refused[OLDER] += 1
                continue
            self._note_pace(row, value, now)
            value = self._clamped[row] = bounds.apply(value)
            if smoothing and not math.isnan(self.values[row]):
                value = smoothing * self.values[row] + (1.0 - smoothing) * value
            self.values[row] = value
            self._stamps[row] = stamp
            self.sampled_at[row] = taken_at = now - max(wall - stamp, 0.0)
            self.newest_at = max(self.newest_at, taken_at)
            taken += 1
        return taken

    def complete(self, now: float) -> None:
        """Update the observed update interval after all samples of an answer that arrived at `now` were stored."""
        self._last_at = now
        self.cadence.saw(self._sampled_after, self._changed_after)
        self._sampled_after, self._changed_after = [], []

    def _note_pace(self, row: int, value: float, now: float) -> None:
        """Measure the time between the last two samples of a node, and between the last two changes of its value."""
        if self._steady_since <= self._came_at[row] < now and len(self._sampled_after) < NODES_TIMED:
            self._sampled_after.append(now - self._came_at[row])
        self._came_at[row] = now
        if value != self._read[row]:
            if self._steady_since <= self._changed_at[row] < now and len(self._changed_after) < NODES_TIMED:
                self._changed_after.append(now - self._changed_at[row])
            self._read[row], self._changed_at[row] = value, now

    def steps(self, row: int, now: float) -> SampleSteps | None:
        """Return a node's value as read, clamped and smoothed, and its age; None if the row has no value."""
        self._rows.follow()
        if row >= len(self.values) or math.isnan(self.values[row]):
            return None
        return SampleSteps(self._read[row], self._clamped[row], self.values[row], now - self.sampled_at[row])

    def clear(self, changed: Collection[int]) -> None:
        """Clear the samples of rows that are new, or whose node was replaced or removed."""
        growth = len(self._rows) - len(self.values)
        for column, empty in self._columns:
            column.extend([empty] * growth)
            for row in changed:
                column[row] = empty
