"""A guest of the batch ABI as a plugin of the framework: what all such plugins have in common, and classes of pods.

What the guest answers is checked before anything is written. A fault costs the pod at hand its cycle, with a status
that names the plugin, or nothing at all if faults of the plugin are to be ignored.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Collection, Hashable
from typing import Any, NamedTuple, TypeVar

from kscheduler._fast import MAX_RAW, pack_alive, values_by_profile
from kscheduler.errors import PluginError
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import MAX_NODE_SCORE, Handle
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import PodAnswer, bad_answer, status_of
from kscheduler.wasm.batch.asking import Asker
from kscheduler.wasm.batch.points import DEFAULT, GUEST, NO_NORMALIZING, REVERSE, Point
from kscheduler.wasm.batch.pure_answers import PureAnswers
from kscheduler.wasm.batch.version import BatchVersion, Surroundings
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.pool import FailurePolicy, Pool, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


class Cycle:
    """What a plugin remembers of one pod's cycle."""

    __slots__ = ("reasons", "state")

    def __init__(self) -> None:
        self.state: bytes | None = None  # the guest's
        self.reasons: list[Status] = []  # behind the details of its verdicts


class BatchPlugin:
    """The part of all plugins; the methods of extension points are in the classes below."""

    name: str
    version: BatchVersion  # the one the class was made of
    around: Surroundings

    def __init__(self, args: Any, handle: Handle) -> None:
        """`args` have been read when the class was made."""
        self._handle = handle
        self._table: NodeTable = handle.table
        self._use(self.version)

    def _use(self, version: BatchVersion) -> None:
        self._version = version
        self._described = version.description
        self._asker = Asker(version.pool(), version.description, self._table, self.around.metrics)
        self._is_pure = version.description.is_pure and not version.reads_clock
        self._pure = PureAnswers(self._asker, self._table)

    @property
    def pool(self) -> Pool:
        return self._asker.pool

    def go_on_with(self, version: BatchVersion) -> None:
        """Use another version of the guest, with the same extension points, from now on."""
        old = self.pool
        self._use(version)
        old.close()

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        return self._asker.view.look(pod) if self._is_pure else None

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """A pure guest's verdicts must agree on nodes of one profile; so must scores that are to be normalised."""
        look = self.sign_pod(pod)
        if look is None or not _can_be_compiled(self._described.points):
            return False
        draft.depends_on(Source.OBJECTS)
        state: bytes | None = None
        for before, point, is_asked in (
            (Point.PRE_FILTER, Point.FILTER, draft.is_filtering),
            (Point.PRE_SCORE, Point.SCORE, draft.weight is not None),
        ):
            if point not in self._described.points or not is_asked:
                continue
            if before in self._described.points:
                prepared = self._asker.ask(before, pod, _prepared(before), state)
                state = state if prepared.state is None else prepared.state
                if prepared.skips:
                    continue
                if prepared.decides:
                    return False
            if not self._compile(point, draft, pod, look, state):
                return False
        return True

    def _compile(self, point: Point, draft: ClassDraft, pod: PodInfo, look: Hashable, state: bytes | None) -> bool:
        columns, profiles = self._table.columns, len(self._table.profiles)
        if point is Point.FILTER:
            marks = array("q", [min(mark, 1) for mark in self._pure.filtered(pod, look, state).marks])
            verdicts = values_by_profile(columns, marks.tobytes(), profiles)
            if verdicts is not None:
                draft.filter_profiles(bytes(_integers(verdicts)))
            return verdicts is not None
        scores = self._pure.scored(pod, look, state).scores
        low, high = bounds(self._described.normalize)
        alive = pack_alive(columns)
        for row, score in enumerate(scores):
            if alive[row] and not low <= score <= high:
                raise out_of_range(row, score, low, high)
        if self._described.normalize in (DEFAULT, REVERSE):
            values = values_by_profile(columns, scores.tobytes(), profiles)
            if values is not None:
                draft.score_profiles(array("q", _integers(values)), reverse=self._described.normalize == REVERSE)
            return values is not None
        if self._described.normalize == GUEST:
            return False
        draft.score_rows(bytes([score if alive[row] else 0 for row, score in enumerate(scores)]))
        return True

    # --- inside ---

    def _cycle(self, state: CycleState) -> Cycle:
        found = state.get(self.name, Cycle)
        if found is None:
            found = Cycle()
            state.write(self.name, found)
        return found

    def _policy(self, point: Point, pod: PodInfo, work: Callable[[], T], instead: T) -> T:
        """The work's result, or `instead` if the guest fails and its policy is to be ignored then."""
        try:
            return work()
        except (GuestFault, Unavailable, PluginError) as error:
            if self._version.options.policy is FailurePolicy.FAIL:
                raise
            log.warning(
                "plugin failed and is ignored",
                extra={"plugin": self.name, "point": point.word, "pod": pod.key, "err": str(error)},
            )
            return instead

    def _ask(
        self, point: Point, state: CycleState, pod: PodInfo, read: Callable[[PodAnswer, int], T], **more: Any
    ) -> T:
        """What `read` makes of the answer; what it says to remember is remembered."""
        cycle = self._cycle(state)
        said: list[bytes | None] = []

        def read_all(answer: PodAnswer, rows: int) -> T:
            found = read(answer, rows)
            said.append(answer.state)
            return found

        found = self._asker.ask(point, pod, read_all, cycle.state, **more)
        if said[0] is not None:
            cycle.state = said[0]
        return found


class _Prepared(NamedTuple):
    """What PreFilter or PreScore say of all pods that look alike."""

    state: bytes | None
    skips: bool
    decides: bool  # about nodes, or that none will do


def _can_be_compiled(points: Collection[Point]) -> bool:
    """Nobody is asked by pod in the compiled lane, so what PreFilter remembers would be missing in the binding cycle."""
    if (Point.PRE_FILTER in points and Point.FILTER not in points) or (
        Point.PRE_SCORE in points and Point.SCORE not in points
    ):
        return False
    is_remembered = Point.PRE_FILTER in points or Point.PRE_SCORE in points
    return not is_remembered or max(points) < Point.RESERVE


def _prepared(point: Point) -> Callable[[PodAnswer, int], _Prepared]:
    def read(answer: PodAnswer, rows: int) -> _Prepared:
        status = status_of(answer, point)
        skips = status is not None and status.code is Code.SKIP
        return _Prepared(answer.state, skips, answer.only is not None or (status is not None and not skips))

    return read


def _integers(packed: bytes) -> list[int]:
    return list(memoryview(packed).cast("q"))


def status_reader(point: Point) -> Callable[[PodAnswer, int], Status | None]:
    return lambda answer, rows: status_of(answer, point)


def bounds(normalizing: str) -> tuple[int, int]:
    """Of raw scores."""
    if normalizing == NO_NORMALIZING:
        return 0, MAX_NODE_SCORE
    return (-MAX_RAW if normalizing == GUEST else 0), MAX_RAW


def out_of_range(row: int, score: int, low: int, high: int) -> GuestFault:
    return bad_answer(Point.SCORE, f"scores: row {row}: expected {low}..{high}, got {score}")
