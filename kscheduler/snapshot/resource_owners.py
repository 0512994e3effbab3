"""Which rows (nodes) have an extended resource themselves: an index that follows changes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Set

from kscheduler.snapshot.node_table import NodeTable


class ResourceOwners:
    """The rows of nodes that name an extended resource in their allocatable amounts, though it may be 0 there."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._rows: dict[str, set[int]] = {}  # resource -> rows
        self._names: dict[int, tuple[str, ...]] = {}  # row -> its resources, if it has some
        self._seen = -1  # changes of nodes that are in the index

    def rows(self, names: Iterable[str]) -> Set[int]:
        """Return the rows of the nodes that have one of these resources."""
        self._follow()
        found = [rows for name in names if (rows := self._rows.get(name))]
        return found[0] if len(found) == 1 else set().union(*found)

    def _follow(self) -> None:
        changes = self._table.node_changes
        if changes.count == self._seen:
            return
        changed = changes.since(self._seen)
        self._seen = changes.count
        for row in range(self._table.columns.rows) if changed is None else changed:
            self._look_at(row)

    def _look_at(self, row: int) -> None:
        info = self._table.find(row)
        names = () if info is None else tuple(info.allocatable.resources.scalars or ())
        before = self._names.get(row, ())
        if names == before:
            return
        for name in before:
            self._rows[name].discard(row)
            if not self._rows[name]:
                del self._rows[name]
        for name in names:
            self._rows.setdefault(name, set()).add(row)
        if names:
            self._names[row] = names
        else:
            del self._names[row]
