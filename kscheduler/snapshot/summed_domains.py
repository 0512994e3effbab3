"""Counts of pods by topology domain, kept for the rest of a decision.

Each dry run of preemption adds its own changes to these counts, so that pods are counted once for all nodes tried.
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
    """The number of pods in each topology domain; a domain's name is the value of the node label.

    The object owns `sums`, which callers must not use any more.
    """

    __slots__ = ("_column", "_levels", "_sums")

    def __init__(self, sums: DomainSums, column: DomainColumn) -> None:
        self._sums = sums
        self._column = column
        self._levels: Counter[int] | None = None

    @property
    def present(self) -> int:
        """The number of topology domains that have at least one of the nodes that were counted ("present" domains)."""
        return self._sums.present

    @property
    def minimum(self) -> int:
        """The lowest number of pods in any present topology domain; 0 if there is none."""
        return self._sums.minimum

    @property
    def ids(self) -> array[int]:
        """Row -> domain id, NO_DOMAIN for none; valid as long as the topology's column is."""
        return self._column.ids

    @property
    def counts(self) -> array[int]:
        """Domain id -> number of pods counted in it."""
        return array("q", map(self._sums.sum_of, range(self._sums.domains)))

    @property
    def presence(self) -> list[bool]:
        """Domain id -> True if at least one of its nodes was counted."""
        return [self._sums.is_present(domain) for domain in range(self._sums.domains)]

    def of(self, domain: str) -> int:
        found = self._column.id_of(domain)
        return 0 if found == NO_DOMAIN else self._sums.sum_of(found)

    @property
    def levels(self) -> Mapping[int, int]:
        """Pod count -> number of present topology domains with that count."""
        if self._levels is None:
            sums = self._sums
            self._levels = Counter(sums.sum_of(each) for each in range(sums.domains) if sums.is_present(each))
        return self._levels
