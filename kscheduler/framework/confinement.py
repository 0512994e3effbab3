"""Some nodes of the table, to which searches for a node are confined: for them the other nodes do not exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Confinement:
    """Valid as long as no node comes, leaves or changes its labels."""

    rows: Sequence[int]  # of the nodes inside, ascending
    inside: bytes  # by row, 1 for those

    @staticmethod
    def to(rows: Sequence[int], table_rows: int) -> Confinement:
        """Return the confinement to these rows of a table that has so many."""
        inside = bytearray(table_rows)
        for row in rows:
            inside[row] = 1
        return Confinement(rows, bytes(inside))

    def has(self, row: int) -> bool:
        return row < len(self.inside) and self.inside[row] == 1
