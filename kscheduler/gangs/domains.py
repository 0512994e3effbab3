"""The domains that node labels make: racks, blocks, zones; each a part of a cluster to which gangs can be confined."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from kscheduler.framework.confinement import Confinement
from kscheduler.snapshot.node_table import NodeTable

NONE = -1  # in place of the number of a domain
MOST_KEPT = 16  # combinations of labels; clusters have a handful


class Domain:
    """The nodes with the same values of some labels. Valid as long as no node comes, leaves or changes its labels."""

    __slots__ = ("_confinement", "_table_rows", "label", "name", "number", "rows")

    def __init__(self, number: int, name: str, label: str, table_rows: int) -> None:
        self.number = number  # its place among the domains of these labels
        self.name = name  # the values, the outermost first: "zone-1/rack-3"
        self.label = label  # the innermost label, without its prefix: "rack"
        self.rows: list[int] = []  # of its nodes, ascending
        self._table_rows = table_rows
        self._confinement: Confinement | None = None

    def within(self, other: Domain) -> Domain | None:
        """Return the part of this domain that is in another one; None if there is none."""
        inside = other.confinement
        rows = [row for row in self.rows if inside.has(row)]
        if not rows:
            return None
        part = Domain(self.number, self.name, self.label, self._table_rows)
        part.rows = rows
        return part

    @property
    def confinement(self) -> Confinement:
        if self._confinement is None:
            self._confinement = Confinement.to(self.rows, self._table_rows)
        return self._confinement


class Domains:
    """All domains of some labels, in the order of their names."""

    __slots__ = ("by_row", "each", "keys", "label")

    def __init__(self, keys: Sequence[str], table: NodeTable) -> None:
        self.keys = keys
        self.label = keys[-1].rpartition("/")[2]
        rows = table.columns.rows
        found: dict[tuple[str, ...], list[int]] = {}
        for node in table:
            labels = node.labels
            values = tuple([labels[key] for key in keys if key in labels])
            if len(values) == len(keys):
                found.setdefault(values, []).append(node.row)
        self.each: list[Domain] = []
        self.by_row = array("i", [NONE]) * rows  # the number of each node's domain
        for values, of_domain in sorted(found.items()):
            domain = Domain(len(self.each), "/".join(values), self.label, rows)
            domain.rows = of_domain
            for row in of_domain:
                self.by_row[row] = domain.number
            self.each.append(domain)

    def of(self, row: int) -> Domain | None:
        number = self.by_row[row] if row < len(self.by_row) else NONE
        return None if number == NONE else self.each[number]


class DomainIndex:
    """Keeps the domains of labels until a node comes, leaves or changes its labels. Costs nothing until it is asked."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._seen = -1
        self._kept: OrderedDict[tuple[str, ...], Domains] = OrderedDict()

    def domains(self, keys: tuple[str, ...]) -> Domains:
        """Return the domains of labels, of which the first key is the outermost."""
        if self._seen != self.table.static_generation:
            self._seen = self.table.static_generation
            self._kept.clear()
        found = self._kept.get(keys)
        if found is None:
            found = self._kept[keys] = Domains(keys, self.table)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found
