"""What was in use on nodes lately, by resource: for telling which pods a sample of a metric knows of already.

A copy of the columns is kept each second in which something was decided, so a burst is seen in steps of a second. What
came to a node between two copies counts as having come with the last decision before the later one; a sample of that
very moment does not know of it. Where copies become too many, of older ones every other is given up.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

from kscheduler._fast import copy_use, mean_use
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable

SPACING_S = 1.0
MOST_COPIES = 64
MOST_BYTES = 64 << 20
FEWEST_COPIES = 8


class UseHistory:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._times: array[float] = array("d")  # of the copies, ascending
        self._copies: dict[int, list[array[float]]] = {}  # resource column, or PODS -> a copy for each time
        self._copied: object = None  # generation of the columns at the latest copy
        self._decided_at = -math.inf  # when decisions were made last
        self._owners: list[NodeInfo | None] = []  # row -> whose use the copies are of
        self._seen = 0  # changes of nodes

    def __len__(self) -> int:
        """Copies of each resource."""
        return len(self._times)

    def follow(self, resources: Iterable[int], now: float) -> None:
        """From now on know what is in use of these. What was kept of others is given up."""
        wanted = set(resources)
        added = wanted - self._copies.keys()
        unknown = [array("d")] * len(self._times)
        self._copies = {resource: self._copies.get(resource, list(unknown)) for resource in wanted}
        if added:
            self._copy(now)

    def note(self, now: float, *, decides: bool) -> None:
        """To be called before decisions are made (`decides`), and now and then."""
        if self._copies and self._table.columns.generation != self._copied and self._is_time(now):
            self._copy(max(self._times[-1], min(self._decided_at, now)))
        if decides:
            self._decided_at = now

    def baseline(self, resource: int, column: MetricColumn) -> array[float]:
        """By row: what was in use of a followed resource when the column's values were sampled, on their mean."""
        self._forget_others()
        now = copy_use(self._table.columns, resource)
        return mean_use(self._times, self._copies[resource], column.sampled, column.window_s, now)

    # --- inside ---

    def _is_time(self, now: float) -> bool:
        """A node that is new has no history yet."""
        return now >= self._times[-1] + SPACING_S or self._table.node_changes.count != self._seen

    def _copy(self, time: float) -> None:
        self._forget_others()
        for resource, copies in self._copies.items():
            copies.append(copy_use(self._table.columns, resource))
        self._times.append(time)
        self._copied = self._table.columns.generation
        if len(self._times) > self._most():
            self._thin()

    def _most(self) -> int:
        bytes_of_a_copy = 8 * max(self._table.columns.rows, 1) * max(len(self._copies), 1)
        return max(FEWEST_COPIES, min(MOST_COPIES, MOST_BYTES // bytes_of_a_copy))

    def _thin(self) -> None:
        """Of the older half every other one goes; the oldest stays, for it stands for all time before."""
        gone = range(1, len(self._times) // 2, 2)
        for number in reversed(gone):
            del self._times[number]
            for copies in self._copies.values():
                del copies[number]

    def _forget_others(self) -> None:
        """What was in use on a node that is gone says nothing about the node that has its row now."""
        changes = self._table.node_changes
        if changes.count == self._seen:
            return
        rows = changes.since(self._seen)
        self._seen = changes.count
        self._owners.extend([None] * (self._table.columns.rows - len(self._owners)))
        for row in range(len(self._owners)) if rows is None else rows:
            owner = self._table.find(row)
            if owner is not self._owners[row]:
                self._owners[row] = owner
                for copies in self._copies.values():
                    for copy in copies:
                        if row < len(copy):
                            copy[row] = math.nan
