"""Plugins' answers about each row (node).

Changes are not recorded here, so more rows are asked for than in answers.pyx.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import final

from kscheduler._fast.codes import MAX_RAW
from kscheduler._fast.reference.checks import index, within
from kscheduler._fast.reference.columns import NodeColumns


@final
class RowAnswers:
    """A plugin's answers about each row (node) of a table: a mark or a score by row, asked for again when rows change.

    A mark is 0 if the plugin accepts the node. `ask(rows)` returns the answers for these rows (packed int32,
    ascending), or for all rows if that is None, packed: a byte for each mark, an int64 for each score. If `ask` raises,
    the exception propagates and the answers stay as they were. With `follows_amounts`, rows whose amounts of resources
    have changed are asked for again. A score of a node outside `low`..`high` is a ValueError.
    """

    def __init__(
        self,
        columns: NodeColumns,
        ask: Callable[[bytes | None], bytes | bytearray],
        marks: bool,
        low: int = 0,
        high: int = 0,
        *,
        follows_amounts: bool = True,
    ) -> None:
        self._columns = columns
        self._ask = ask
        self._is_marks = marks
        self._low = within("low", low, -MAX_RAW, MAX_RAW)
        self._high = within("high", high, -MAX_RAW, MAX_RAW)
        self._follows_amounts = follows_amounts
        self._kept: array[int] = array("B" if marks else "q")
        self._seen = -1
        self._doubts: set[int] = set()

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    @property
    def entries(self) -> memoryview:
        """The answers for all rows (nodes) as bytes, as of the last refresh; valid until the next one."""
        return memoryview(self._kept.tobytes())

    def doubt(self, rows: bytes | None) -> None:
        """Have the next refresh ask the plugin again about these rows, i.e. nodes (packed int32; None: all).

        Rows that are new must be among them.
        """
        if rows is None:
            self._seen = -1
        else:
            self._doubts.update(array("i", rows))

    def refresh(self) -> None:
        """Ask the plugin again about rows (nodes) passed to `doubt` and, with `follows_amounts`, about changed rows.

        If that is cheaper, it is asked about all rows.
        """
        has_changed = self._seen < 0 or (self._follows_amounts and self._seen != self._columns.generation)
        if has_changed or (len(self._kept) < self._columns.rows and not self._doubts):
            self._ask_about(None)  # this form keeps no history
        elif self._doubts:
            few = 4 * len(self._doubts) <= self._columns.rows
            self._ask_about(array("i", sorted(self._doubts)).tobytes() if few else None)

    # --- for classes of pods ---

    @property
    def _limits(self) -> tuple[int, int]:
        return self._low, self._high

    def _is_out(self, row: int) -> bool:
        return self._is_marks and self._kept[row] != 0

    def _score(self, row: int) -> int:
        return 0 if self._is_marks else self._kept[row]

    # --- inside ---

    def _ask_about(self, rows: bytes | None) -> None:
        """Ask about these rows (None: all nodes) and keep the answers; if these are invalid, the old ones stay."""
        now, count = self._columns.generation, self._columns.rows
        picked = array("i", range(count)) if rows is None else array("i", rows)
        for row in picked:
            index("row", row, count)
        answers: array[int] = array(self._kept.typecode)
        if picked:
            entries = bytes(self._ask(rows))
            wanted = len(picked) * answers.itemsize
            if len(entries) != wanted:
                raise ValueError(f"expected {wanted} bytes for {len(picked)} rows, got {len(entries)}")
            answers.frombytes(entries)
        kept = self._kept + array(answers.typecode, bytes(answers.itemsize * (count - len(self._kept))))
        for row, entry in zip(picked, answers, strict=True):
            is_alive = self._columns.is_alive(row)
            if not self._is_marks and is_alive and not self._low <= entry <= self._high:
                raise ValueError(f"score of row {row}: expected {self._low}..{self._high}, got {entry}")
            kept[row] = entry if self._is_marks or is_alive else 0
        self._kept = kept
        self._seen = now
        self._doubts.clear()
