"""Tallies: the sums of a count of pods by topology domain, updated as single rows (nodes) change."""

from __future__ import annotations

from array import array
from typing import final

from kscheduler._fast.reference.checks import INT32_MAX, check_length, within
from kscheduler._fast.reference.topology import DomainSums, RowMask, sum_by_domain

_MAX_SUM = 1 << 30


@final
class DomainTally:
    """The sums of a count of pods by topology domain.

    `rebuild` must be called first, and again when domains change or the mask, i.e. the set of rows (nodes) that count.
    """

    def __init__(self) -> None:
        self._ids = array("i")
        self._counts = array("q")
        self._domains = 0
        self._mask = RowMask()
        self._each_row = False
        self._sums: dict[int, int] = {}  # domain that is present -> sum
        self._largest = 0
        self._went_below = False
        self._is_good = False

    def rebuild(self, counts: array[int], ids: array[int], domains: int, mask: RowMask, each_row: bool = False) -> None:
        """Sum the counts of the rows (nodes) in the mask by topology domain.

        With `each_row`, each row with a domain is a domain of its own. A row without a domain never counts. If a sum is
        too large, the tally is not good (see `is_good`).
        """
        within("domains", domains, 0, INT32_MAX)
        for what, found in (("ids", ids), ("counts", counts)):
            check_length(what, len(found), mask.rows)
        for row in range(mask.rows):
            if ids[row] >= domains:
                raise IndexError(f"row {row} is in domain {ids[row]}, there are sums for {domains}")
        self._mask.take(mask)
        self._ids = ids[: mask.rows]
        self._counts = array("q", bytes(8 * mask.rows))
        self._domains = domains
        self._each_row = each_row
        self._sums = {self._slot(row): 0 for row in range(mask.rows) if row in mask and ids[row] >= 0}
        self._largest = 0
        self._went_below = False
        self._is_good = True
        for row in range(mask.rows):
            if counts[row]:
                self.add(row, counts[row])

    def add(self, row: int, amount: int) -> None:
        """Add `amount` to the count of a row (node).

        If the tally does not know the row, it is no longer good (see `is_good`).
        """
        if not 0 <= row < self.rows or abs(amount) > _MAX_SUM:
            self._is_good = False
        if not self._is_good or row not in self._mask or self._ids[row] < 0:
            return
        found = self._sums[self._slot(row)] + amount
        if abs(found) > _MAX_SUM:
            self._is_good = False
            return
        self._counts[row] += amount
        self._sums[self._slot(row)] = found
        self._largest = max(self._largest, abs(found))
        self._went_below = self._went_below or found < 0

    def give_up(self) -> None:
        """Declare the sums invalid, since the tally will not be updated any more."""
        self._is_good = False

    @property
    def rows(self) -> int:
        return self._mask.rows

    @property
    def is_good(self) -> bool:
        """True if the sums are those of the rows (nodes) as they were given.

        They are not before the first `rebuild`, after a sum beyond 2^30, after a change of a row that the tally does
        not have, and after `give_up`. Such a tally must be rebuilt before it is read again.
        """
        return self._is_good

    @property
    def present(self) -> int:
        """The number of topology domains with at least one row (node) in the mask, i.e. among those that count."""
        return len(self._sums)

    @property
    def occupied(self) -> int:
        """The number of topology domains with a sum other than 0."""
        return sum(found != 0 for found in self._sums.values())

    @property
    def minimum(self) -> int:
        """The lowest sum of a topology domain with a row (node) in the mask, i.e. one that counts; 0 without any."""
        return min(self._sums.values(), default=0)

    def sum_of(self, row: int) -> int | None:
        """Return the sum of the domain that the row (node) is in; None if it is in none."""
        within("row", row, 0, self.rows - 1)
        return None if self._ids[row] < 0 else self._sums.get(self._slot(row), 0)

    def _slot(self, row: int) -> int:
        return row if self._each_row else self._ids[row]

    def _summed(self) -> tuple[DomainSums, array[int]]:
        """Return the sums in the form of `DomainSums`, and the topology domain of each row (node)."""
        ids, domains = self._ids, self._domains
        if self._each_row:
            ids, domains = array("i", (row if ids[row] >= 0 else -1 for row in range(self.rows))), self.rows
        sums = DomainSums()
        sum_by_domain(sums, self._counts, ids, domains, self._mask)
        return sums, ids
