"""Caches a guest's answers that depend on the pod and the node alone.

The key is the pod's look, i.e. the parts of the pod that the guest declared to read. For a pod with a known look, the
guest is called about changed nodes only. Both lanes of the scheduler use the cache: the general lane, and the pod
classes (pods that all plugins decide equally) of the compiled lane, which read the same marks and scores.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable
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

MAX_BYTES = 32 << 20  # size of all kept answers of one plugin
_OBJECTS_BYTES = 1_024  # about the memory of an answer's Python objects
_ROW_BYTES = 9  # a mark and a score
_REASON_BYTES = 128  # about the memory of a status beside its texts

NEVER = -1, -1  # `KeptAnswer.seen` before the first refresh


class OutOfReasons(PluginError):
    """Raised when a guest gives a new reason why a node is rejected, but MAX_MARKS reasons are already in use."""


class KeptAnswer:
    """A guest's cached answers at Filter and Score for pods that are equal in all it reads: a value for each node.

    At Filter the value is a mark: 0 if the node is feasible, else 1 + the index of the reason in `reasons`.
    """

    __slots__ = (
        "_asker",
        "_fixed_bytes",
        "_has_grown",
        "_limits",
        "_question",
        "_reasons_bytes",
        "_table",
        "counted_bytes",
        "marks",
        "reasons",
        "scores",
        "seen",
    )

    def __init__(
        self,
        asker: Asker,
        table: NodeTable,
        question: Question,
        limits: tuple[int, int],
        has_grown: Callable[[KeptAnswer], object],
        *,
        follows_pods: bool,
        key_bytes: int = 0,
    ) -> None:
        """Prepare an answer without asking the guest.

        `has_grown` is called when there are new reasons. `key_bytes` is the size of the key by which it is found.
        """
        self._asker = asker
        self._table = table
        self._question = question
        self._limits = limits
        self._has_grown = has_grown
        self._fixed_bytes = _OBJECTS_BYTES + key_bytes + question.size_bytes
        self._reasons_bytes = 0
        self.counted_bytes = 0  # what KeptAnswers has counted of `size_bytes`
        # The mark of a row is 0 if it is feasible; otherwise reasons[mark - 1] is why not.
        self.marks = RowAnswers(table.columns, self._ask_marks, True, follows_amounts=follows_pods)
        self.reasons: list[Status] = []
        self.scores = RowAnswers(table.columns, self._ask_scores, False, *limits, follows_amounts=follows_pods)
        self.seen = NEVER  # numbers of the node changes and metric changes that marks and scores know of

    @property
    def size_bytes(self) -> int:
        """About the memory that the answer takes."""
        return self._fixed_bytes + self._reasons_bytes + _ROW_BYTES * self._table.columns.rows

    def _ask_marks(self, rows: bytes | None) -> bytes | bytearray:
        marks, reasons = self._asker.ask_rows(Point.FILTER, self._question, rows, read_marks)
        if rows is None:
            self._take_reasons(reasons)
            return marks
        if reasons == self.reasons[: len(reasons)]:
            return marks
        new = [reason for reason in dict.fromkeys(reasons) if reason not in self.reasons]
        if len(self.reasons) + len(new) > MAX_MARKS:
            raise OutOfReasons(f"expected at most {MAX_MARKS} reasons, got {len(new)} more")
        self._take_reasons([*self.reasons, *new])
        places = [0, *(self.reasons.index(reason) + 1 for reason in reasons)]
        return bytes(places[mark] for mark in marks)

    def _take_reasons(self, reasons: list[Status]) -> None:
        self.reasons = reasons
        self._reasons_bytes = sum(_REASON_BYTES + sum(map(len, reason.reasons)) for reason in reasons)
        self._has_grown(self)

    def _ask_scores(self, rows: bytes | None) -> bytes:
        return self._asker.ask_rows(Point.SCORE, self._question, rows, partial(self._read_scores, rows))

    def _read_scores(self, rows: bytes | None, answer: PodAnswer, count: int) -> bytes:
        """Return the scores in an answer as packed int64.

        Raises GuestFault for a score out of range, so that the pool discards the instance.
        """
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
        """Create an empty cache. `limits` is the range of raw scores.

        `follows_pods`: answers also depend on the requests of the pods on a node.
        """
        self._asker = asker
        self._table = table
        self._limits = limits
        self._follows_pods = follows_pods
        self._max_bytes = max_bytes
        self._bytes = 0  # of all kept answers
        self._kept: OrderedDict[tuple[Hashable, bytes | None], KeptAnswer] = OrderedDict()  # by a pod's look and state

    def filtered(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """Return the guest's cached answer at Filter about a pod, after asking again about changed nodes.

        It has a mark for each node: 0 if it is feasible, else which of the answer's reasons rejects it. `look` is the
        cache's key: the parts of the pod that the guest reads. `state` is what the guest returned at PreFilter, or
        None.
        """
        found = self.find(pod, look, state)
        try:
            found.marks.refresh()
        except OutOfReasons:
            found.marks.doubt(None)
            found.marks.refresh()
        return found

    def scored(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """Return the guest's cached answer at Score about a pod, after asking again about changed nodes.

        It has a raw score for each node. `look` is the cache's key: the parts of the pod that the guest reads. `state`
        is what the guest returned at PreFilter or PreScore, or None.
        """
        found = self.find(pod, look, state)
        found.scores.refresh()
        return found

    def find(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        """Return the cached answer about a pod, in which changed nodes are marked as outdated; refresh it before use.

        `look` is the cache's key: the parts of the pod that the guest reads. `state` is what the guest returned last,
        or None.
        """
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
        """Return the rows whose node or metrics have changed since `seen` (numbers of changes), as packed int32.

        None if any row may have changed.
        """
        if seen == NEVER:
            return None
        nodes, measured = self._table.node_changes.since(seen[0]), self._asker.metrics.changes.since(seen[1])
        return None if nodes is None or measured is None else array("i", [*nodes, *measured]).tobytes()

    def _of(self, pod: PodInfo, look: Hashable, state: bytes | None) -> KeptAnswer:
        key = (look, state)
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        else:
            found = self._kept[key] = KeptAnswer(
                self._asker,
                self._table,
                self._asker.question(pod, state),
                self._limits,
                self._count_again,
                follows_pods=self._follows_pods,
                key_bytes=len(state or b"") + (len(look) if isinstance(look, bytes) else 0),
            )
        self._count(found)
        return found

    def _count_again(self, answer: KeptAnswer) -> None:
        """Count an answer that has grown, unless it was dropped and is only used by a class of pods."""
        if answer.counted_bytes:
            self._count(answer)

    def _count(self, answer: KeptAnswer) -> None:
        """Count the answer that is used now, and drop those used longest ago until the others fit."""
        size = answer.size_bytes
        self._bytes += size - answer.counted_bytes
        answer.counted_bytes = size
        while self._bytes > self._max_bytes and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= dropped.counted_bytes
            dropped.counted_bytes = 0


def out_of_range(row: int, score: int, low: int, high: int) -> GuestFault:
    return bad_answer(Point.SCORE, f"scores: row {row}: expected {low}..{high}, got {score}")
