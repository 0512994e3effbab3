"""What was counted in each domain of a topology, kept for the rest of a decision.

What-ifs add their own changes to it, so that one count serves as many of them as there are nodes to consider.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import final

from kscheduler._fast import DomainSums
from kscheduler.snapshot.topology import NO_DOMAIN, DomainColumn


@final
class SummedDomains:
    """`sums` must be nobody else's. Domains are given by name: the value of the node label."""

    __slots__ = ("_column", "_levels", "_sums")

    def __init__(self, sums: DomainSums, column: DomainColumn) -> None:
        self._sums = sums
        self._column = column
        self._levels: Counter[int] | None = None

    @property
    def present(self) -> int:
        """How many domains have a node that was looked at."""
        return self._sums.present

    @property
    def minimum(self) -> int:
        """The lowest count of these; 0 if there is none."""
        return self._sums.minimum

    @property
    def ids(self) -> array[int]:
        """Row -> id of its domain, NO_DOMAIN for none; good as long as the topology's column is."""
        return self._column.ids

    @property
    def counts(self) -> array[int]:
        """Domain id -> count."""
        return array("q", map(self._sums.sum_of, range(self._sums.domains)))

    @property
    def presence(self) -> list[bool]:
        """Domain id -> has it a node that was looked at?"""
        return [self._sums.is_present(domain) for domain in range(self._sums.domains)]

    def of(self, domain: str) -> int:
        found = self._column.id_of(domain)
        return 0 if found == NO_DOMAIN else self._sums.sum_of(found)

    @property
    def levels(self) -> Mapping[int, int]:
        """Count -> how many domains have it, of those with a node that was looked at."""
        if self._levels is None:
            sums = self._sums
            self._levels = Counter(sums.sum_of(each) for each in range(sums.domains) if sums.is_present(each))
        return self._levels
