"""The metrics that a plugin of Trimaran reads, as columns of values by node; an unknown metric is an empty column."""

from __future__ import annotations

import math
from array import array

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Freshness
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.metric_columns import MetricColumn

FRESHNESS = Freshness(max_age=Duration.of_seconds(300))


class Utilisation:
    """The current values of these metrics by node row; a metric without a source has no values."""

    def __init__(self, telemetry: Telemetry, *metrics: str) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
        self._policies = -1  # columns are others when this has changed
        self._columns: list[MetricColumn | None] = []
        self._versions: list[int] = []
        self._version = 0

    def follow(self) -> int:
        """Update the columns before values are read. Returns a number that grows when some may have changed."""
        if self._telemetry.policies_version != self._policies:
            self._policies = self._telemetry.policies_version
            self._columns = [self._column(metric) for metric in self._metrics]
            self._versions = []
        versions = [-1 if column is None else column.version for column in self._columns]
        if versions != self._versions:
            self._versions = versions
            self._version += 1
        return self._version

    def values(self, number: int) -> array[float] | memoryview:
        """Return the values, by row (node), of the metric with this position in `metrics`."""
        column = self._columns[number]
        return array("d") if column is None else column.values

    def at(self, number: int, row: int) -> float:
        values = self.values(number)
        return float(values[row]) if row < len(values) else math.nan

    def sampled_at(self, number: int) -> float:
        """Return the time of the newest sample of the metric with this position in `metrics`."""
        column = self._columns[number]
        return 0.0 if column is None else column.sampled_at

    def _column(self, metric: str) -> MetricColumn | None:
        try:
            return self._telemetry.column(metric, FRESHNESS)
        except KeyError:
            return None
