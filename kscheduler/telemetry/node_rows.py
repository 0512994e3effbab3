"""Follows which node each row of the node table holds, so that data of a row are cleared when it gets another node."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from kscheduler.snapshot.node_table import NodeTable

_NOBODY = ("", "")


class NodeRows:
    """The node in each row of the node table. Call `follow` before using rows; it is cheap if no node has changed."""

    def __init__(self, table: NodeTable, on_change: Callable[[list[int]], object]) -> None:
        """Start with no rows (nodes).

        `on_change` is called with the rows of the table that are new, or whose node was replaced or removed.
        """
        self._table = table
        self._on_change = on_change
        self._owners: list[tuple[str, str]] = []  # row -> name and uid of its node
        self._seen = 0  # count of the table's changes already processed
        self.versions = itertools.count(1)  # for columns: no two versions are ever equal

    def __len__(self) -> int:
        return len(self._owners)

    def find(self, node: str) -> int | None:
        return self._table.row_of(node)

    @property
    def node_count(self) -> int:
        return len(self._table)

    def follow(self) -> None:
        changes = self._table.node_changes
        count = changes.count
        if count == self._seen:
            return
        rows = changes.since(self._seen)
        self._seen = count
        self._owners.extend(_NOBODY for _ in range(self._table.columns.rows - len(self._owners)))
        changed = []  # includes new rows
        for row in range(len(self._owners)) if rows is None else rows:
            info = self._table.find(row)
            owner = _NOBODY if info is None else (info.name, info.node.metadata.uid)
            if owner != self._owners[row]:
                self._owners[row] = owner
                changed.append(row)
        if changed:
            self._on_change(changed)
