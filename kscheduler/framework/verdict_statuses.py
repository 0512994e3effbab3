"""The status of each rejected node, made on demand from the numbers that kernels wrote for the node.

These are a code, i.e. the filter that rejected the node, and a detail, i.e. that filter's reason. Few pairs occur, so
that few statuses are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kscheduler._fast import FEASIBLE, MAX_CODE, Verdicts
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable

OUTSIDE = MAX_CODE  # the code of rows (nodes) that a search is not to know


class NodeStatuses(Mapping[str, Status]):
    """A mapping of node name -> status, for the nodes that reject a pod, without an entry for each node."""

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Yield (status, number of nodes with it), without iterating over all nodes; a status may come repeatedly."""
        raise NotImplementedError

    def nodes_with(self, code: Code) -> list[NodeInfo]:
        """Return the rejected nodes whose status has this code."""
        raise NotImplementedError


class SameStatus(NodeStatuses):
    """One status for all nodes, such as that of a PreFilter plugin."""

    def __init__(self, table: NodeTable, status: Status) -> None:
        self._table = table
        self._status = status

    def __getitem__(self, name: str) -> Status:
        if self._table.row_of(name) is None:
            raise KeyError(name)
        return self._status

    def __iter__(self) -> Iterator[str]:
        return (node.name for node in self._table)

    def __len__(self) -> int:
        return len(self._table)

    def counts(self) -> Iterator[tuple[Status, int]]:
        yield self._status, len(self._table)

    def nodes_with(self, code: Code) -> list[NodeInfo]:
        return list(self._table) if self._status.code is code else []


class VerdictStatuses(NodeStatuses):
    """A mapping of node name -> status, for the examined nodes that are not feasible. Valid until the next cycle."""

    def __init__(
        self,
        table: NodeTable,
        verdicts: Verdicts,
        alone: Mapping[int, Status],
        explain: Callable[[int, int], Status],
    ) -> None:
        """Build the mapping. `explain` returns the status for the code (filter) and detail (reason) of a verdict.

        `alone`: row -> the status of a node that has one of its own, which takes precedence over its verdict.
        """
        self._table = table
        self._verdicts = verdicts
        self._alone = alone
        self._explain = explain
        self._known: dict[tuple[int, int], Status] = {}  # (code, detail) -> its status

    def __getitem__(self, name: str) -> Status:
        row = self._table.row_of(name)
        if row is None or not self._is_rejected(row):
            raise KeyError(name)
        return self._status(row)

    def __iter__(self) -> Iterator[str]:
        return (node.name for node in self._table if self._is_rejected(node.row))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Yield (status, number of nodes with it), without iterating over all nodes; a status may come repeatedly."""
        yield from ((status, 1) for status in self._alone.values())
        yield from ((self._status_of(reason), nodes) for reason, nodes in self._histogram().items())

    def nodes_with(self, code: Code) -> list[NodeInfo]:
        """Return the rejected nodes whose status has this code."""
        # Test each (code, detail) first, so that little is left to do for each node.
        verdicts = self._verdicts
        reasons = {reason for reason in self._histogram() if self._status_of(reason).code is code}
        alone = {row: status.code is code for row, status in self._alone.items() if self._is_rejected(row)}
        if not reasons and not any(alone.values()):
            return []
        code_of, detail_of, rows = verdicts.code, verdicts.detail, verdicts.rows
        return [
            node
            for node in self._table
            if (row := node.row) < rows and (alone[row] if row in alone else (code_of(row), detail_of(row)) in reasons)
        ]

    def _histogram(self) -> dict[tuple[int, int], int]:
        """Return how many nodes each filter rejected for each reason: (code, detail) -> number above zero.

        Nodes that have a status of their own (`alone` in `__init__`) are not counted.
        """
        histogram = self._verdicts.histogram()
        for row in self._alone:
            histogram[self._verdicts.code(row), self._verdicts.detail(row)] -= 1
        return {reason: nodes for reason, nodes in histogram.items() if nodes and FEASIBLE < reason[0] < OUTSIDE}

    def _is_rejected(self, row: int) -> bool:
        return row < self._verdicts.rows and FEASIBLE < self._verdicts.code(row) < OUTSIDE

    def _status(self, row: int) -> Status:
        alone = self._alone.get(row)
        if alone is not None:
            return alone
        return self._status_of((self._verdicts.code(row), self._verdicts.detail(row)))

    def _status_of(self, reason: tuple[int, int]) -> Status:
        found = self._known.get(reason)
        if found is None:
            found = self._known[reason] = self._explain(*reason)
        return found
