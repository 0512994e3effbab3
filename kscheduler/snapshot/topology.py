"""The topology domain of each node: its value of the topology key's label, as a number.

Each topology key that was asked for has a column: row -> domain id, -1 without the label. A domain keeps its id while a
node is in it; afterwards the id may be reused, so ids are valid within one decision only. The column is made when a key
is first asked for, and follows the nodes' labels from then on.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import final

from kscheduler._fast import NodeColumns

NO_DOMAIN = -1
# Clusters have a handful of topology keys; the bound guards against pods that each name a different one.
MAX_KEYS = 256


@final
class DomainColumn:
    """The topology domain of each node, by one topology key.

    `ids` is array('i'), row (node) -> domain id or NO_DOMAIN; ids are below `size`.
    """

    __slots__ = ("_free", "_id_of", "_users", "ids", "names")

    def __init__(self) -> None:
        self.ids: array[int] = array("i")
        self.names: list[str] = []  # domain id -> the label's value
        self._id_of: dict[str, int] = {}  # value -> domain id, of domains that have nodes
        self._users: list[int] = []  # domain id -> nodes in it
        self._free: list[int] = []  # ids of domains without nodes

    @property
    def size(self) -> int:
        return len(self.names)

    def id_of(self, name: str) -> int:
        """Return the id of the topology domain with this label value, or NO_DOMAIN if no node is in it."""
        return self._id_of.get(name, NO_DOMAIN)

    def set(self, row: int, name: str | None) -> None:
        """Set the label value of the node in a row; None if the node lacks the label or the row has no node."""
        self.grow_to(row + 1)
        old = self.ids[row]
        if old != NO_DOMAIN and self.names[old] == name:
            return
        self.ids[row] = NO_DOMAIN if name is None else self._join(name)
        if old != NO_DOMAIN:
            self._leave(old)

    def grow_to(self, rows: int) -> None:
        """Grow `ids` to at least `rows` entries."""
        if rows > len(self.ids):
            missing = max(rows, 2 * len(self.ids)) - len(self.ids)
            self.ids.extend([NO_DOMAIN] * missing)

    def _join(self, name: str) -> int:
        found = self._id_of.get(name)
        if found is None:
            if self._free:
                found = self._free.pop()
                self.names[found] = name
            else:
                found = len(self.names)
                self.names.append(name)
                self._users.append(0)
            self._id_of[name] = found
        self._users[found] += 1
        return found

    def _leave(self, domain: int) -> None:
        self._users[domain] -= 1
        if not self._users[domain]:
            del self._id_of[self.names[domain]]
            self._free.append(domain)


@final
class TopologyColumns:
    """The columns (row -> domain id) of all topology keys in use.

    `labels_by_row` returns (row, labels) of all nodes.
    """

    def __init__(
        self, columns: NodeColumns, labels_by_row: Callable[[], Iterable[tuple[int, Mapping[str, str]]]]
    ) -> None:
        self._columns = columns
        self._labels_by_row = labels_by_row
        self._kept: OrderedDict[str, DomainColumn] = OrderedDict()  # topology key -> column, latest use last

    def column(self, key: str) -> DomainColumn:
        """Return the column of a topology key, at least as long as the table has rows. Valid for one decision."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MAX_KEYS:
                self._kept.popitem(last=False)
            found = DomainColumn()
            for row, labels in self._labels_by_row():
                found.set(row, labels.get(key))
            self._kept[key] = found  # complete, or not at all
        else:
            self._kept.move_to_end(key)
        found.grow_to(self._columns.rows)
        return found

    def set_row(self, row: int, labels: Mapping[str, str]) -> None:
        """Update all columns for a node that is new or whose labels changed."""
        for key, column in self._kept.items():
            column.set(row, labels.get(key))

    def clear_row(self, row: int) -> None:
        """Update all columns for a row whose node was removed."""
        for column in self._kept.values():
            column.set(row, None)
