"""What somebody else says of each row, in plain Python: what answers.pyx must do, with more questions than it asks."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import final

from kscheduler._fast.codes import MAX_RAW
from kscheduler._fast.reference.checks import index, within
from kscheduler._fast.reference.columns import NodeColumns


@final
class RowAnswers:
    """A mark, or a score, of each row of a table.

    `ask(rows)` says it of rows, packed int32 in ascending order, or of all if that is None: one byte a mark, an int64 a
    score, packed. What it raises passes, and then nothing has changed. `follows_amounts`: an entry may be another one
    when the numbers of its row have changed. Scores of nodes are within `low` and `high`, or else ValueError.
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
        """Packed, of all rows, as they were found last. Valid until the next question."""
        return memoryview(self._kept.tobytes())

    def doubt(self, rows: bytes | None) -> None:
        """These rows (packed; None: all) are to be asked about again. Among them are all that are new."""
        if rows is None:
            self._seen = -1
        else:
            self._doubts.update(array("i", rows))

    def refresh(self) -> None:
        """Ask about rows in doubt, and those whose numbers changed if that matters; about all if that is cheaper."""
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
        """Of these rows, or of all. Nothing is kept if the answer is refused."""
        now, count = self._columns.generation, self._columns.rows
        picked = array("i", range(count)) if rows is None else array("i", rows)
        for row in picked:
            index("row", row, count)
        said: array[int] = array(self._kept.typecode)
        if picked:
            entries = bytes(self._ask(rows))
            wanted = len(picked) * said.itemsize
            if len(entries) != wanted:
                raise ValueError(f"expected {wanted} bytes for {len(picked)} rows, got {len(entries)}")
            said.frombytes(entries)
        kept = self._kept + array(said.typecode, bytes(said.itemsize * (count - len(self._kept))))
        for row, entry in zip(picked, said, strict=True):
            is_alive = self._columns.is_alive(row)
            if not self._is_marks and is_alive and not self._low <= entry <= self._high:
                raise ValueError(f"score of row {row}: expected {self._low}..{self._high}, got {entry}")
            kept[row] = entry if self._is_marks or is_alive else 0
        self._kept = kept
        self._seen = now
        self._doubts.clear()
