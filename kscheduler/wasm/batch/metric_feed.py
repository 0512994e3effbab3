"""Live metrics of nodes as columns for guests: an integer for each node, and a record of which nodes have changed.

A provider has a double for each row of the node table, NaN where there is no value, and a version for each metric.
Guests get thousandths, the unit of Kubernetes' own metrics APIs.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Protocol

from kscheduler._fast import take_metric
from kscheduler.config.metric_policy import Freshness
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.row_log import RowLog

NO_METRIC = -(1 << 63)  # stands for a missing value
NOBODYS = -1  # the version of a metric that no source has
_NOTHING = array("q", [NO_METRIC]).tobytes()


class LiveColumns(Protocol):
    """Provides live metrics as columns over the node table. They do not change while a pod is decided."""

    def version(self, name: str) -> int:
        """Return a number that changes when a value or a node's row may have changed; NOBODYS for no such metric."""
        ...

    def values(self, name: str) -> array[float] | memoryview | None:
        """Return a double per row of the node table, NaN for no value; None for no such metric.

        Valid until the next change.
        """
        ...


class NoColumns:
    """A provider of live metrics that has none."""

    def version(self, name: str) -> int:
        return NOBODYS

    def values(self, name: str) -> None:
        return None


class TelemetryColumns:
    """Live metrics from the scheduler's own metric sources, without samples above the default maximum age."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def version(self, name: str) -> int:
        column = self._column(name)
        return NOBODYS if column is None else column.version

    def values(self, name: str) -> memoryview | None:
        column = self._column(name)
        return None if column is None else column.values

    def _column(self, name: str) -> MetricColumn | None:
        try:
            return self._telemetry.column(name, Freshness())
        except KeyError:
            return None


class MetricFeed:
    """The columns of the live metrics that one guest reads."""

    def __init__(self, names: Sequence[str], columns: LiveColumns) -> None:
        self._names = names
        self._columns = columns
        self._versions: dict[str, int] = {}  # metric -> version of its column in `_packed`
        self._packed = {name: bytearray() for name in names}  # metric -> int64 by row
        self._rows = 0
        self.changes = RowLog()  # rows of which a metric value has changed

    def follow(self, rows: int) -> int:
        """Take over new values for a node table of `rows` rows; return how many changes there have been in all."""
        if not self._names:
            return 0
        grown = range(self._rows, rows)
        for row in grown:
            self.changes.add(row)
        self._rows = rows
        for name, packed in self._packed.items():
            version = self._columns.version(name)
            if version == self._versions.get(name) and not grown:
                continue
            self._versions[name] = version
            packed += _NOTHING * len(grown)
            for row in memoryview(take_metric(self._columns.values(name), packed)).cast("i"):
                self.changes.add(row)
        return self.changes.count

    def pack(self, rows: Sequence[int] | None) -> Mapping[str, bytes]:
        """Return the values by metric for these rows (nodes), packed as int64; `rows` None for all nodes."""
        if rows is None:
            return {name: bytes(packed) for name, packed in self._packed.items()}
        return {name: self._pick(packed, rows) for name, packed in self._packed.items()}

    def _pick(self, packed: bytearray, rows: Sequence[int]) -> bytes:
        with memoryview(packed).cast("q") as column:
            return array("q", [column[row] for row in rows]).tobytes()
