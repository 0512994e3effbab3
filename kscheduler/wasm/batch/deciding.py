"""The extension points at which a guest decides: PreEnqueue, PreFilter, Filter, PreScore, Score, NormalizeScore."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from kscheduler._fast import Scores, Verdicts, clear_raw, normalize, reject_marked, set_raws
from kscheduler.errors import PluginError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import MAX_NODE_SCORE, PreFilterResult
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import PodAnswer, bad_answer, packed_scores, read_marks, read_scores, status_of
from kscheduler.wasm.batch.kept_answers import out_of_range
from kscheduler.wasm.batch.plugin import BatchPlugin, bounds, status_reader
from kscheduler.wasm.batch.points import REVERSE, Point


class PreEnqueuePoint(BatchPlugin):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        def work() -> Status | None:
            return self._asker.ask(Point.PRE_ENQUEUE, pod, status_reader(Point.PRE_ENQUEUE))

        return self._policy(Point.PRE_ENQUEUE, pod, work, None)


_PreFiltered = tuple[PreFilterResult | None, Status | None]
_Scored = tuple[int, Status | None]


class PreFilterPoint(BatchPlugin):
    def pre_filter(self, state: CycleState, pod: PodInfo) -> _PreFiltered:
        def read(answer: PodAnswer, rows: int) -> _PreFiltered:
            only = None if answer.only is None else PreFilterResult(self._names(answer.only))
            return only, status_of(answer, Point.PRE_FILTER)

        def work() -> _PreFiltered:
            return self._ask(Point.PRE_FILTER, state, pod, read)

        nothing: _PreFiltered = (None, None)
        return self._policy(Point.PRE_FILTER, pod, work, nothing)

    def _names(self, packed: bytes) -> frozenset[str]:
        if len(packed) % 4:
            raise bad_answer(Point.PRE_FILTER, f"only: expected 4 bytes a row, got {len(packed)}")
        names = set()
        for row in memoryview(packed).cast("i"):
            info = self._table.find(row)
            if info is None:
                raise bad_answer(Point.PRE_FILTER, f"only: expected rows of nodes, got {row}")
            names.add(info.name)
        return frozenset(names)


class FilterPoint(BatchPlugin):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        def read(answer: PodAnswer, rows: int) -> Status | None:
            marks, reasons = read_marks(answer, rows)
            return reasons[marks[0] - 1] if marks[0] else None

        def work() -> Status | None:
            return self._ask(Point.FILTER, state, pod, read, rows=_packed_row(node.row), what_if=node)

        return self._policy(Point.FILTER, pod, work, None)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        cycle = self._cycle(state)

        def work() -> None:
            marks, cycle.reasons = self._all_marks(pod, self.sign_pod(pod), cycle.state)
            reject_marked(verdicts, marks, code, len(cycle.reasons))

        self._policy(Point.FILTER, pod, work, None)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return self._cycle(state).reasons[detail]


class Measuring(BatchPlugin):
    """Adds to a plugin the method of `FollowingPlugin`, for guests that read live metrics."""

    def follow(self) -> int:
        """Take over new values of live metrics.

        Returns a number that grows when the guest's answers about classes of equal pods must be asked for again because
        of them.
        """
        return self._asker.metrics.follow(self._table.columns.rows)


class FarSighted(BatchPlugin):
    """Adds to a plugin the method of `FarSightedPlugin`, for guests that read pod fields that the scheduler ignores."""

    def look_beyond(self, pod: PodInfo) -> bytes:
        return self._asker.view.beyond(pod)


class PreScorePoint(BatchPlugin):
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        def work() -> Status | None:
            return self._ask(Point.PRE_SCORE, state, pod, status_reader(Point.PRE_SCORE))

        return self._policy(Point.PRE_SCORE, pod, work, None)


class ScorePoint(BatchPlugin):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> _Scored:
        low, high = bounds(self._described.normalize)

        def read(answer: PodAnswer, rows: int) -> _Scored:
            score = read_scores(answer, rows)[0]
            if not low <= score <= high:
                raise out_of_range(node.row, score, low, high)
            return score, None

        def work() -> _Scored:
            return self._ask(Point.SCORE, state, pod, read, rows=_packed_row(node.row), what_if=node)

        nothing: _Scored = (0, None)
        return self._policy(Point.SCORE, pod, work, nothing)

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        clear_raw(verdicts, scores)
        low, high = bounds(self._described.normalize)
        own, look = self._cycle(state).state, self.sign_pod(pod)

        def read(answer: PodAnswer, rows: int) -> None:
            write(packed_scores(answer, rows))

        def write(values: bytes | memoryview) -> None:
            bad_row = set_raws(verdicts, scores, values, low, high)
            if bad_row >= 0:
                raise out_of_range(bad_row, array("q", values)[bad_row], low, high)

        def work() -> None:
            if look is not None:
                write(self._all_scores(pod, look, own))
            else:  # checked inside of the call, so that a score out of range discards the instance
                self._ask(Point.SCORE, state, pod, read)

        self._policy(Point.SCORE, pod, work, None)


class DefaultNormalizing(ScorePoint):
    """Score whose raw scores the host normalises with kube-scheduler's DefaultNormalizeScore, possibly in reverse."""

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, self._described.normalize == REVERSE)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        default_normalize(scores, reverse=self._described.normalize == REVERSE)
        return None


class GuestNormalizing(ScorePoint):
    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        raw = {row: scores.raw(row) for row in verdicts.feasible_rows()}
        for row, score in self._normalized(state, pod, raw).items():
            scores.set_raw(row, score)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        names = {self._row_of(name): name for name in scores}
        for row, score in self._normalized(state, pod, {row: scores[names[row]] for row in sorted(names)}).items():
            scores[names[row]] = score
        return None

    def _row_of(self, name: str) -> int:
        row = self._table.row_of(name)
        if row is None:
            raise PluginError(f"expected a node of the table, got {name}")
        return row

    def _normalized(self, state: CycleState, pod: PodInfo, raw: Mapping[int, int]) -> Mapping[int, int]:
        """Call the guest's NormalizeScore.

        `raw` and the result map a node's row in the node table to its score, in row order.
        """

        def read(answer: PodAnswer, rows: int) -> Mapping[int, int]:
            found = dict(zip(raw, read_scores(answer, rows), strict=True))
            for row, score in found.items():
                if not 0 <= score <= MAX_NODE_SCORE:
                    raise out_of_range(row, score, 0, MAX_NODE_SCORE)
            return found

        def work() -> Mapping[int, int]:
            rows, scores = array("i", raw).tobytes(), array("q", raw.values()).tobytes()
            return self._ask(Point.NORMALIZE_SCORE, state, pod, read, rows=rows, scores=[scores])

        return self._policy(Point.NORMALIZE_SCORE, pod, work, dict.fromkeys(raw, 0))


def _packed_row(row: int) -> bytes:
    return array("i", [row]).tobytes()
