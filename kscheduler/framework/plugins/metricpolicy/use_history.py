"""The recent usage of nodes by resource, to find out which pods a metric's sample already includes.

The usage columns are copied once in each second in which a decision was made, so a burst is seen in steps of a second.
A pod that came to a node between two copies counts as having come with the last decision before the later copy; a
sample of exactly that time does not include it. When there are too many copies, every other one of the older half is
dropped.

The usage of a resource before it was first needed is computed from the pods that came and left since. So a decision
does not depend on whether this replica placed them or the replica that led before it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

from kscheduler._fast import copy_use, mean_use
from kscheduler._fast.metric_formulas import PODS
from kscheduler.framework.plugins.metricpolicy.pod_moves import Move, PodMoves
from kscheduler.framework.pod_times import BINDINGS_KNOWN_S
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable

SPACING_S = 1.0
MOST_COPIES = 64
MOST_BYTES = 64 << 20
FEWEST_COPIES = 8


class UseHistory:
    def __init__(self, table: NodeTable, moves: PodMoves) -> None:
        self._table = table
        self._moves = moves
        self._times: array[float] = array("d")  # of the copies, ascending
        self._copies: dict[int, list[array[float]]] = {}  # resource column, or PODS -> a copy for each time
        self._copied: object = None  # generation of the columns at the latest copy
        self._decided_at = -math.inf  # when decisions were made last
        self._owners: list[NodeInfo | None] = []  # row -> the node whose usage the copies have
        self._seen = 0  # number of node changes that have been read

    def follow(self, resources: Iterable[int], now: float) -> None:
        """Record the usage of these resources from now on; what was kept of others is dropped."""
        wanted = set(resources)
        added = wanted - self._copies.keys()
        self._copies = {resource: self._copies[resource] for resource in wanted - added}
        if not added:
            return
        # 1. When are copies from?
        if self._copies:
            self._copy(now)
        else:
            self._forget_others()
            moves = self._moves.since(now - BINDINGS_KNOWN_S)
            self._times = _moments(moves, self._most(len(added)), now)
            self._copied = self._table.columns.generation
            self._decided_at = now
        # 2. What was in use then?
        for resource in added:
            self._copies[resource] = self._earlier(resource, self._moves.since(now - BINDINGS_KNOWN_S))

    def note(self, now: float, *, decides: bool) -> None:
        """Copy the usage columns if a copy is due. Called before decisions (`decides`), and from time to time."""
        if self._copies and self._table.columns.generation != self._copied and self._is_time(now):
            self._copy(max(self._times[-1], min(self._decided_at, now)))
        if decides:
            self._decided_at = now

    def baseline(self, resource: int, column: MetricColumn) -> array[float]:
        """Return, by row (node), the usage of a recorded resource at the time of which the column's values are.

        A value averaged over a window gets the mean usage of that window.
        """
        self._forget_others()
        now = copy_use(self._table.columns, resource)
        return mean_use(self._times, self._copies[resource], column.sampled, column.window_s, now)

    # --- inside ---

    def _earlier(self, resource: int, moves: list[Move]) -> list[array[float]]:
        """Return the usage at each copy's time: the current usage, with the pods undone that came or left since."""
        copy = copy_use(self._table.columns, resource)
        copies = [copy]
        for number in range(len(self._times) - 2, -1, -1):
            # What came at the very moment of the first copy, which stands for all time before, came after it.
            end = self._times[number] if number else math.nextafter(self._times[0], -math.inf)
            copy = array("d", copy)
            while moves and moves[-1].at > end:
                move = moves.pop()
                copy[move.node.row] -= move.sign * _amount(move, resource)
            copies.append(copy)
        copies.reverse()
        return copies

    def _is_time(self, now: float) -> bool:
        """Return True if a copy is due; also when nodes have changed, since a new node has no history yet."""
        return now >= self._times[-1] + SPACING_S or self._table.node_changes.count != self._seen

    def _copy(self, time: float) -> None:
        self._forget_others()
        for resource, copies in self._copies.items():
            copies.append(copy_use(self._table.columns, resource))
        self._times.append(time)
        self._copied = self._table.columns.generation
        if len(self._times) > self._most(len(self._copies)):
            self._thin()

    def _most(self, resources: int) -> int:
        bytes_of_a_copy = 8 * max(self._table.columns.rows, 1) * max(resources, 1)
        return max(FEWEST_COPIES, min(MOST_COPIES, MOST_BYTES // bytes_of_a_copy))

    def _thin(self) -> None:
        """Drop every other copy of the older half. The oldest stays, since it stands for all time before it."""
        gone = range(1, len(self._times) // 2, 2)
        for number in reversed(gone):
            del self._times[number]
            for copies in self._copies.values():
                del copies[number]

    def _forget_others(self) -> None:
        """Drop the usage of nodes that are gone, since a new node may be in their row."""
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


def _amount(move: Move, resource: int) -> int:
    if resource == PODS:
        return 1
    return next((amount for column, amount in move.request.entries if column == resource), 0)


def _moments(moves: Sequence[Move], most: int, now: float) -> array[float]:
    """Return the times for which usage is to be computed: before the first move, and after each second with moves.

    At most `most` times; `now` alone without any moves.
    """
    if not moves:
        return array("d", [now])
    ends: list[float] = []
    begin = -math.inf
    for move in moves:
        if move.at - begin < SPACING_S:
            ends[-1] = move.at
        else:
            begin = move.at
            ends.append(move.at)
    while len(ends) >= most:  # of the older half every other goes, so that its moves count as later ones
        del ends[0 : len(ends) // 2 : 2]
    return array("d", [moves[0].at - SPACING_S, *ends])
