"""The rows (nodes) that nominated pods keep from a pod, for kernels that know nothing of nominated pods."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import FEASIBLE, PodRequest, Verdicts, filter_with_nominated
from kscheduler.framework.nominated_pods import NominatedPods
from kscheduler.framework.nominations import Nominations
from kscheduler.snapshot.node_table import NodeTable

NONE: frozenset[int] = frozenset()
_CODE = 1  # of the only filter here


class RowsKept:
    """Says which rows have too little room for a pod beside the pods that are nominated there."""

    def __init__(self, table: NodeTable, nominations: Nominations) -> None:
        self._table = table
        self._nominated = NominatedPods(table, nominations)
        self._verdicts = Verdicts()

    def rows(self) -> Sequence[int]:
        """Return the rows to which pods are nominated."""
        return [each.row for each in self._nominated.now()]

    def from_pod(self, request: PodRequest, priority: int) -> frozenset[int]:
        """Return the rows that are kept from a pod, which is not nominated itself."""
        nominated, verdicts = self._nominated.now(), self._verdicts
        verdicts.reset(self._table.columns)
        filter_with_nominated(self._table.columns, verdicts, request, nominated, priority, "", _CODE, _CODE)
        return frozenset([each.row for each in nominated if verdicts.code(each.row) != FEASIBLE])

    def others(self, kept: frozenset[int], within: bytes | None) -> bytes:
        """Return 1 by row for those that are not kept, and are 1 in `within`, if that is given."""
        rows = self._table.columns.rows
        inside = bytearray(b"\1") * rows if within is None else bytearray(within)
        for row in kept:
            if row < len(inside):
                inside[row] = 0
        return bytes(inside)
