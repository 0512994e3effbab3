"""Answers of a guest that goes by pod and node object alone: kept by what it sees of a pod, and brought up to date.

A pod that looks like one before costs no call, and a node that has changed costs a call about its row.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import MAX_MARKS, read_marks, read_scores
from kscheduler.wasm.batch.asking import Asker
from kscheduler.wasm.batch.points import Point

MAX_BYTES = 32 << 20  # of all answers of one plugin


class PureAnswer:
    """What is known of one look of pods, a row each; dead rows hold anything."""

    __slots__ = ("marks", "reasons", "scores", "seen_marks", "seen_scores")

    def __init__(self) -> None:
        self.marks = bytearray()  # row -> 0, or out for reasons[mark - 1]
        self.reasons: list[Status] = []
        self.scores: array[int] = array("q")
        self.seen_marks = self.seen_scores = -1  # changes of nodes that they follow; -1: never asked


class PureAnswers:
    def __init__(self, asker: Asker, table: NodeTable, max_bytes: int = MAX_BYTES) -> None:
        self._asker = asker
        self._table = table
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, PureAnswer] = OrderedDict()  # (look of a pod, its state) -> answer

    def filtered(self, pod: PodInfo, look: Hashable, state: bytes | None) -> PureAnswer:
        """With marks and reasons that are good now."""
        found = self._of(look, state)
        rows = self._changed(found.seen_marks)
        if rows is None or not self._patch_marks(found, pod, state, rows):
            marks, reasons = self._asker.ask(Point.FILTER, pod, read_marks, state)
            found.marks, found.reasons = bytearray(marks), reasons
        found.seen_marks = self._table.node_changes.count
        return found

    def scored(self, pod: PodInfo, look: Hashable, state: bytes | None) -> PureAnswer:
        """With scores that are good now: raw, and not checked."""
        found = self._of(look, state)
        rows = self._changed(found.seen_scores)
        if rows is None:
            found.scores = self._asker.ask(Point.SCORE, pod, read_scores, state)
        elif rows:
            fresh = self._asker.ask(Point.SCORE, pod, read_scores, state, rows=array("i", rows).tobytes())
            found.scores.extend([0] * (self._rows - len(found.scores)))
            for row, score in zip(rows, fresh, strict=True):
                found.scores[row] = score
        found.seen_scores = self._table.node_changes.count
        return found

    @property
    def _rows(self) -> int:
        return self._table.columns.rows

    def _changed(self, seen: int) -> Sequence[int] | None:
        """None: all rows have to be asked about."""
        return None if seen < 0 else self._table.node_changes.since(seen)

    def _patch_marks(self, found: PureAnswer, pod: PodInfo, state: bytes | None, rows: Sequence[int]) -> bool:
        """False if there is no room for new reasons."""
        if not rows:
            return True
        marks, reasons = self._asker.ask(Point.FILTER, pod, read_marks, state, rows=array("i", rows).tobytes())
        new = [reason for reason in reasons if reason not in found.reasons]
        if len(found.reasons) + len(new) > MAX_MARKS:
            return False
        found.reasons = [*found.reasons, *dict.fromkeys(new)]
        found.marks.extend(bytes(self._rows - len(found.marks)))
        for row, mark in zip(rows, marks, strict=True):
            found.marks[row] = found.reasons.index(reasons[mark - 1]) + 1 if mark else 0
        return True

    def _of(self, look: Hashable, state: bytes | None) -> PureAnswer:
        key = (look, state)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if (len(self._kept) + 1) * 9 * max(self._rows, 64) > self._max_bytes and self._kept:
            self._kept.popitem(last=False)
        found = self._kept[key] = PureAnswer()
        return found
