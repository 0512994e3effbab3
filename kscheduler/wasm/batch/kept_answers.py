"""Answers of a guest that goes by the pod and the row alone: kept by what it sees of a pod, and brought up to date.

A pod that looks like one before costs no question about rows that are as they were: a changed row costs its row.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from kscheduler._fast import changes_so_far, rows_changed_since
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import MAX_MARKS, PodAnswer, read_marks, read_scores
from kscheduler.wasm.batch.asking import Asker
from kscheduler.wasm.batch.points import Point

MAX_BYTES = 32 << 20  # of all answers of one plugin


NEVER = -1, -1

# Raises GuestFault for a score of one of these rows (None: all) that is out of range.
CheckScores = Callable[["array[int]", Sequence[int] | None], None]


class KeptAnswer:
    """What is known of one look of pods, a row each; dead rows hold anything."""

    __slots__ = ("marks", "reasons", "scores", "seen_marks", "seen_scores")

    def __init__(self) -> None:
        self.marks = bytearray()  # row -> 0, or out for reasons[mark - 1]
        self.reasons: list[Status] = []
        self.scores: array[int] = array("q")
        # Changes of nodes and of amounts that they follow.
        self.seen_marks = self.seen_scores = NEVER


class KeptAnswers:
    def __init__(
        self, asker: Asker, table: NodeTable, check: CheckScores, *, follows_pods: bool, max_bytes: int = MAX_BYTES
    ) -> None:
        """`follows_pods`: answers depend on what pods request on the row, too."""
        self._asker = asker
        self._table = table
        self._check = check
        self._follows_pods = follows_pods
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, KeptAnswer] = OrderedDict()  # (look of a pod, its state) -> answer

    def filtered(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """With marks and reasons that are good now."""
        found = self._of(look, state)
        rows = self._changed(found.seen_marks)
        if rows is None or not self._patch_marks(found, pod, state, rows):
            marks, reasons = self._asker.ask(Point.FILTER, pod, read_marks, state)
            found.marks, found.reasons = bytearray(marks), reasons
        found.seen_marks = self._now()
        return found

    def scored(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """With scores that are good now: raw."""
        found = self._of(look, state)
        rows = self._changed(found.seen_scores)
        if rows is None:
            found.scores = self._asker.ask(Point.SCORE, pod, self._read_scores(None), state)
        elif rows:
            packed = array("i", rows).tobytes()
            fresh = self._asker.ask(Point.SCORE, pod, self._read_scores(rows), state, rows=packed)
            found.scores.extend([0] * (self._rows - len(found.scores)))
            for row, score in zip(rows, fresh, strict=True):
                found.scores[row] = score
        found.seen_scores = self._now()
        return found

    @property
    def _rows(self) -> int:
        return self._table.columns.rows

    def _now(self) -> tuple[int, int]:
        return self._table.node_changes.count, changes_so_far(self._table.columns)

    def _changed(self, seen: tuple[int, int]) -> Sequence[int] | None:
        """None: all rows have to be asked about, or so many that it is not worth picking them."""
        if seen == NEVER:
            return None
        rows = self._table.node_changes.since(seen[0])
        if rows is None or not self._follows_pods:
            return rows
        packed = rows_changed_since(self._table.columns, seen[1])
        if packed is None or len(packed) > self._rows:  # a quarter of them
            return None
        used = memoryview(packed).cast("i")
        return sorted({*rows, *used}) if rows else list(used)

    def _read_scores(self, rows: Sequence[int] | None) -> Callable[[PodAnswer, int], array[int]]:
        def read(answer: PodAnswer, count: int) -> array[int]:
            scores = read_scores(answer, count)
            self._check(scores, rows)
            return scores

        return read

    def _patch_marks(self, found: KeptAnswer, pod: PodInfo, state: bytes | None, rows: Sequence[int]) -> bool:
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

    def _of(self, look: Hashable, state: bytes | None) -> KeptAnswer:
        key = (look, state)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if (len(self._kept) + 1) * 9 * max(self._rows, 64) > self._max_bytes and self._kept:
            self._kept.popitem(last=False)
        found = self._kept[key] = KeptAnswer()
        return found
