"""Which domain of a topology each node is in: a node's value of a label, as a number.

Each topology key that a question has named has a column: row -> domain id, -1 without the label. A domain's id is
its own while a node is in it, and may be another's afterwards, so ids mean something within one decision only. The
column is made when a key is first asked for and follows the nodes' labels from then on.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import final

from kscheduler._fast import NodeColumns

NO_DOMAIN = -1
# Clusters have a handful of keys; the bound guards against pods that each name another.
MAX_KEYS = 256


@final
class DomainColumn:
    """One topology key: `ids` is array('i'), row -> domain id or NO_DOMAIN; ids are below `size`."""

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
        """The id of a domain, or NO_DOMAIN if no node is in it."""
        return self._id_of.get(name, NO_DOMAIN)

    def set(self, row: int, name: str | None) -> None:
        """A node's label has this value; None: it has none, or there is no node."""
        self.reach(row + 1)
        old = self.ids[row]
        if old != NO_DOMAIN and self.names[old] == name:
            return
        self.ids[row] = NO_DOMAIN if name is None else self._join(name)
        if old != NO_DOMAIN:
            self._leave(old)

    def reach(self, rows: int) -> None:
        """Make `ids` at least so long."""
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
    """A column for each topology key in use. `labels_by_row` gives (row, labels) of all nodes there are."""

    def __init__(
        self, columns: NodeColumns, labels_by_row: Callable[[], Iterable[tuple[int, Mapping[str, str]]]]
    ) -> None:
        self._columns = columns
        self._labels_by_row = labels_by_row
        self._kept: OrderedDict[str, DomainColumn] = OrderedDict()  # topology key -> column, latest use last

    def column(self, key: str) -> DomainColumn:
        """The column of a topology key, at least as long as the table has rows. Good for one decision."""
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
        found.reach(self._columns.rows)
        return found

    def set_row(self, row: int, labels: Mapping[str, str]) -> None:
        """A node is new, or its labels changed."""
        for key, column in self._kept.items():
            column.set(row, labels.get(key))

    def clear_row(self, row: int) -> None:
        """The node is gone."""
        for column in self._kept.values():
            column.set(row, None)
