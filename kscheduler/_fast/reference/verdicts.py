"""The verdict on each row (node) for one pod: feasible, or a code and a detail that state why it is rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import final

from kscheduler._fast.codes import FEASIBLE, MAX_CODE, NO_NODE, NOT_EXAMINED
from kscheduler._fast.reference.checks import INT64_MAX, index, within
from kscheduler._fast.reference.columns import NodeColumns


@final
class Verdicts:
    """The verdict on each row (node) for one pod at a time: feasible, or rejected with a code and a detail.

    The code stands for the filter that rejected the row; the detail is that filter's reason number.
    """

    def __init__(self) -> None:
        self._code: list[int] = []  # row -> FEASIBLE, 1..MAX_CODE, NOT_EXAMINED or NO_NODE
        self._detail: list[int] = []  # row -> what the code's owner says about it

    @property
    def rows(self) -> int:
        return len(self._code)

    def reset(self, columns: NodeColumns) -> None:
        """Begin with a new pod: every row that holds a node is feasible."""
        self._code = [FEASIBLE if node.alive else NO_NODE for node in columns._table]
        self._detail = [0] * len(self._code)

    def code(self, row: int) -> int:
        return self._code[index("row", row, len(self._code))]

    def detail(self, row: int) -> int:
        return self._detail[index("row", row, len(self._code))]

    def feasible_count(self) -> int:
        return self._code.count(FEASIBLE)

    def feasible_rows(self) -> list[int]:
        """List the feasible rows (nodes) in ascending order."""
        return [row for row, code in enumerate(self._code) if code == FEASIBLE]

    def rows_with(self, code: int, detail: int) -> list[int]:
        """List the rows (nodes) with this code (filter) and detail (reason) in ascending order."""
        pairs = zip(self._code, self._detail, strict=True)
        return [row for row, pair in enumerate(pairs) if pair == (code, detail)]

    def histogram(self) -> dict[tuple[int, int], int]:
        """Return (code, detail), i.e. filter and reason -> number of nodes, including feasible nodes, in any order."""
        pairs = zip(self._code, self._detail, strict=True)
        return dict(Counter(pair for pair in pairs if pair[0] != NO_NODE))

    def reject(self, row: int, code: int, detail: int = 0) -> None:
        """Reject a row (node) if it is still feasible; a row keeps its first reason."""
        _check_reason(code, detail)
        index("row", row, len(self._code))
        if self._code[row] == FEASIBLE:
            self._code[row] = code
            self._detail[row] = detail

    def reject_rows(self, rows: Sequence[int], code: int, detail: int = 0) -> None:
        _check_reason(code, detail)
        for row in rows:
            index("row", row, len(self._code))
        for row in rows:
            self.reject(row, code, detail)

    def keep_only(self, rows: Sequence[int], code: int, detail: int = 0) -> None:
        """Reject every feasible row (node) that is not among `rows`."""
        _check_reason(code, detail)
        kept = {index("row", row, len(self._code)) for row in rows}
        for row in self.feasible_rows():
            if row not in kept:
                self.reject(row, code, detail)

    def limit_feasible(self, start: int, limit: int) -> int:
        """Examine nodes from row `start` on, wrapping around, and stop before the feasible one that exceeds `limit`.

        That node and all after it become NOT_EXAMINED, whatever their verdict was. Returns the number of nodes
        examined.
        """
        rows = len(self._code)
        index("start", start, rows) if rows else within("start", start, 0, 0)
        within("limit", limit, 1, INT64_MAX)
        examined = found = 0
        for row in [*range(start, rows), *range(start)]:
            if self._code[row] == NO_NODE:
                continue
            if found == limit and self._code[row] == FEASIBLE:
                found += 1
            if found > limit:
                self._code[row] = NOT_EXAMINED
                self._detail[row] = 0
                continue
            examined += 1
            found += self._code[row] == FEASIBLE
        return examined


def _check_reason(code: int, detail: int) -> None:
    within("code", code, 1, MAX_CODE)
    within("detail", detail, 0, INT64_MAX)
