"""Answers of a guest that goes by the pod and the row alone: kept by what it sees of a pod, and brought up to date.

A pod that looks like one before costs no question about rows that are as they were: a changed row costs its row. What
is kept of a look serves both lanes: classes of the compiled core read the same marks and scores.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial

from kscheduler._fast import RowAnswers
from kscheduler.errors import PluginError
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import MAX_MARKS, PodAnswer, bad_answer, packed_scores, read_marks
from kscheduler.wasm.batch.asking import Asker, Question
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import GuestFault

MAX_BYTES = 32 << 20  # of all answers of one plugin

NEVER = -1, -1


class OutOfReasons(PluginError):
    """There is no room for a new reason beside those that rows have."""


class KeptAnswer:
    """What is known of one look of pods."""

    __slots__ = ("_asker", "_limits", "_question", "_table", "marks", "reasons", "scores", "seen")

    def __init__(
        self, asker: Asker, table: NodeTable, question: Question, limits: tuple[int, int], *, follows_pods: bool
    ) -> None:
        self._asker = asker
        self._table = table
        self._question = question
        self._limits = limits
        # A row is 0, or out for reasons[mark - 1].
        self.marks = RowAnswers(table.columns, self._ask_marks, True, follows_amounts=follows_pods)
        self.reasons: list[Status] = []
        self.scores = RowAnswers(table.columns, self._ask_scores, False, *limits, follows_amounts=follows_pods)
        self.seen = NEVER  # changes of nodes and of metrics that they follow

    def _ask_marks(self, rows: bytes | None) -> bytes | bytearray:
        marks, reasons = self._asker.ask_rows(Point.FILTER, self._question, rows, read_marks)
        if rows is None:
            self.reasons = reasons
            return marks
        if reasons == self.reasons[: len(reasons)]:
            return marks
        new = [reason for reason in dict.fromkeys(reasons) if reason not in self.reasons]
        if len(self.reasons) + len(new) > MAX_MARKS:
            raise OutOfReasons(f"expected at most {MAX_MARKS} reasons, got {len(new)} more")
        self.reasons = [*self.reasons, *new]
        places = [0, *(self.reasons.index(reason) + 1 for reason in reasons)]
        return bytes(places[mark] for mark in marks)

    def _ask_scores(self, rows: bytes | None) -> bytes:
        return self._asker.ask_rows(Point.SCORE, self._question, rows, partial(self._read_scores, rows))

    def _read_scores(self, rows: bytes | None, answer: PodAnswer, count: int) -> bytes:
        """A score out of range is to cost the guest its instance."""
        packed = packed_scores(answer, count)
        low, high = self._limits
        scores = memoryview(packed).cast("q")
        if count and not (low <= min(scores) and max(scores) <= high):
            for row, score in zip(range(count) if rows is None else array("i", rows), scores, strict=True):
                if self._table.find(row) is not None and not low <= score <= high:
                    raise out_of_range(row, score, low, high)
        return packed


class KeptAnswers:
    def __init__(
        self,
        asker: Asker,
        table: NodeTable,
        limits: tuple[int, int],
        *,
        follows_pods: bool,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`limits`: of scores. `follows_pods`: answers depend on what pods request on the row, too."""
        self._asker = asker
        self._table = table
        self._limits = limits
        self._follows_pods = follows_pods
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, KeptAnswer] = OrderedDict()  # (look of a pod, its state) -> answer

    def filtered(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """With marks and reasons that are good now."""
        found = self.find(pod, look, state)
        try:
            found.marks.refresh()
        except OutOfReasons:
            found.marks.doubt(None)
            found.marks.refresh()
        return found

    def scored(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """With scores that are good now: raw."""
        found = self.find(pod, look, state)
        found.scores.refresh()
        return found

    def find(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """With marks and scores that know which nodes have changed, and are good once they are refreshed."""
        found = self._of(pod, look, state)
        nodes, metrics = self._table.node_changes, self._asker.metrics
        now = nodes.count, metrics.follow(self._table.columns.rows)
        if found.seen != now:
            packed = self._changed(found.seen)
            found.marks.doubt(packed)
            found.scores.doubt(packed)
            found.seen = now
        return found

    def _changed(self, seen: tuple[int, int]) -> bytes | None:
        """Rows whose node or metrics have changed since; None: all may have."""
        if seen == NEVER:
            return None
        nodes, measured = self._table.node_changes.since(seen[0]), self._asker.metrics.changes.since(seen[1])
        return None if nodes is None or measured is None else array("i", [*nodes, *measured]).tobytes()

    def _of(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        key = (look, state)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if (len(self._kept) + 1) * 9 * max(self._table.columns.rows, 64) > self._max_bytes and self._kept:
            self._kept.popitem(last=False)
        found = self._kept[key] = KeptAnswer(
            self._asker, self._table, self._asker.question(pod, state), self._limits, follows_pods=self._follows_pods
        )
        return found


def out_of_range(row: int, score: int, low: int, high: int) -> GuestFault:
    return bad_answer(Point.SCORE, f"scores: row {row}: expected {low}..{high}, got {score}")
