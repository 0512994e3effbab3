"""Presents a guest of the batch ABI as a plugin of the framework: the common part of such plugins.

A guest's answer is checked before any of it is used. A fault ends the pod's cycle with a status that names the plugin,
or is ignored if the plugin's failure policy is to do so. A pod class has the pods that all plugins decide equally.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Collection, Hashable
from typing import Any, NamedTuple, TypeVar, final

from kscheduler._fast import MAX_RAW, JoinTerms, RowAnswers, values_by_node_class
from kscheduler.errors import PluginError
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import MAX_NODE_SCORE, Handle
from kscheduler.framework.joined_terms import JoinBench, Joined
from kscheduler.framework.status import Code, Status
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.batch.answers import PodAnswer, read_marks, status_of
from kscheduler.wasm.batch.asking import Asker, Turn
from kscheduler.wasm.batch.kept_answers import KeptAnswers
from kscheduler.wasm.batch.metric_feed import LiveColumns, TelemetryColumns
from kscheduler.wasm.batch.points import GUEST, METRICS, NO_NORMALIZING, NODE, POD, REVERSE, USAGE, Point
from kscheduler.wasm.batch.version import BatchVersion, Surroundings
from kscheduler.wasm.engine import GuestFault
from kscheduler.wasm.pool import FailurePolicy, Pool, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

FAULTS = GuestFault, Unavailable, PluginError  # errors that asking a guest may raise


class Cycle:
    """A plugin's data about one scheduling and binding cycle of a pod."""

    __slots__ = ("asker", "holder", "reasons", "state", "turn")

    def __init__(self) -> None:
        self.state: bytes | None = None  # the state that the guest keeps for the pod
        self.reasons: list[Status] = []  # statuses of Filter, by detail of a rejected row
        self.asker: Asker | None = None  # the one the binding began with; other pods may use a newer version
        self.holder = ""  # name of the binding as the holder of an instance
        self.turn = Turn()  # serialises the calls on other threads


class BatchPlugin:
    """The common part of all plugins of the batch ABI; subclasses add the methods of the extension points."""

    name: str
    version: BatchVersion  # the version that the class was made of
    around: Surroundings

    def __init__(self, args: Any, handle: Handle) -> None:
        """Make the plugin. `args` is not used, because the arguments were read when the class was made."""
        self._handle = handle
        self._table: NodeTable = handle.table
        self._bench = JoinBench()
        self._use(self.version)

    def _use(self, version: BatchVersion) -> None:
        self._version = version
        self._described = version.description
        self._asker = Asker(version.pool(), version.description, self._table, self._live_columns(version))
        self._is_pure = version.description.is_pure
        self._is_steady = version.description.depends <= {POD, NODE, USAGE, METRICS} and not version.may_surprise
        self._kept_answers = KeptAnswers(
            self._asker,
            self._table,
            bounds(version.description.normalize),
            follows_pods=USAGE in version.description.depends,
        )

    def _live_columns(self, version: BatchVersion) -> LiveColumns | None:
        if not version.description.metrics:
            return None
        return self.around.metrics or TelemetryColumns(self._handle.telemetry)

    @property
    def pool(self) -> Pool:
        return self._asker.pool

    def go_on_with(self, version: BatchVersion) -> None:
        """Switch to another version of the guest, with the same extension points."""
        old = self.pool
        self._use(version)
        old.close()
        if self._table.columns.rows:  # pod classes depend on node changes: this rebuilds them all
            self._table.node_changes.add(0)

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        """Return what the guest reads of the pod as its signature; None if answers must not be shared between pods.

        They must not for a guest that depends on more than pods, nodes, usage and metrics, or that records Events of
        pods.
        """
        return self._asker.view.look(pod) if self._is_steady else None

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Add the guest's answers to a draft, i.e. to what plugins state for kernels about a class of equal pods.

        They are one for each class of equal nodes if the guest is pure, else one for each node. Returns False if that
        is not possible for this pod.
        """
        look, points = self.sign_pod(pod), self._described.points
        if look is None or not _can_be_compiled(points, is_pure=self._is_pure):
            return False
        draft.depends_on(Source.OBJECTS)
        if METRICS in self._described.depends:
            draft.depends_on(Source.METRICS)
        asks = _Asks(self, pod, look)
        for before, point, is_asked in (
            (Point.PRE_FILTER, Point.FILTER, draft.is_filtering),
            (Point.PRE_SCORE, Point.SCORE, draft.weight is not None),
        ):
            if point not in points or not is_asked:
                continue
            if before in points:
                prepared = self._asker.ask(before, pod, _prepared(before), asks.state)
                if prepared.decides:
                    return False
                if prepared.state is not None:
                    asks.state = prepared.state
                if prepared.skips:
                    continue
            (asks.compile_filter if point is Point.FILTER else asks.compile_score)(draft)
        return True

    # --- inside ---

    def _all_marks(
        self, pod: PodInfo, look: Hashable | None, state: bytes | None
    ) -> tuple[bytes | bytearray | memoryview, list[Status]]:
        """Return a mark for every node, and the statuses that marks refer to, from the guest's answer at Filter.

        A mark is 0 if the node is feasible, else 1 + the index of the status that rejects it. `look` is the key under
        which answers for equal pods are cached, or None for no caching.
        """
        if look is None:
            return self._asker.ask(Point.FILTER, pod, read_marks, state)
        kept = self._kept_answers.filtered(pod, look, state)
        return kept.marks.entries, kept.reasons

    def _all_scores(self, pod: PodInfo, look: Hashable, state: bytes | None) -> memoryview:
        """Return the packed raw scores of every node.

        `look` is the key under which answers for equal pods are cached.
        """
        return self._kept_answers.scored(pod, look, state).scores.entries

    def _cycle(self, state: CycleState) -> Cycle:
        found = state.get(self.name, Cycle)
        if found is None:
            found = Cycle()
            state.write(self.name, found)
        return found

    def _policy(self, point: Point, pod: PodInfo, work: Callable[[], T], instead: T) -> T:
        """Return `work()`, or `instead` if that raises an error of the guest and the failure policy is to ignore it."""
        try:
            return work()
        except FAULTS as error:
            if not self._is_ignored(point, pod, error):
                raise
            return instead

    def _is_ignored(self, point: Point, pod: PodInfo, error: Exception) -> bool:
        if self._version.options.policy is FailurePolicy.FAIL:
            return False
        log.warning(
            "plugin failed and is ignored",
            extra={"plugin": self.name, "point": point.word, "pod": pod.key, "err": str(error)},
        )
        return True

    def _ask(
        self, point: Point, state: CycleState, pod: PodInfo, read: Callable[[PodAnswer, int], T], **more: Any
    ) -> T:
        """Call the guest for a pod, and return `read(answer, number of nodes in the question)`.

        The state in the answer is stored for the pod's cycle.
        """
        cycle = self._cycle(state)
        asker = cycle.asker or self._asker
        found, kept = asker.ask(point, pod, with_state(read), cycle.state, **more)
        if kept is not None:
            cycle.state = kept
        return found


class _Asks:
    """Calls a guest for the answers that go into a class of equal pods, by which kernels decide these pods."""

    def __init__(self, plugin: BatchPlugin, pod: PodInfo, look: Hashable) -> None:
        self.state: bytes | None = None  # the state that PreFilter or PreScore returned
        self._plugin = plugin
        self._pod = pod
        self._look = look

    def compile_filter(self, draft: ClassDraft) -> None:
        plugin, table, asked = self._plugin, self._plugin._table, (self._pod, self._look, self.state)
        if plugin._is_pure:
            marks = array("q", [min(mark, 1) for mark in plugin._kept_answers.filtered(*asked).marks.entries])
            verdicts = values_by_node_class(table.columns, marks.tobytes(), len(table.node_classes))
            if verdicts is not None:
                draft.filter_node_classes(bytes(_integers(verdicts)))
                return
        draft.filter_asked(plugin._kept_answers.find(*asked).marks)

    def compile_score(self, draft: ClassDraft) -> None:
        plugin, table, asked = self._plugin, self._plugin._table, (self._pod, self._look, self.state)
        normalizing = plugin._described.normalize
        if plugin._is_pure:
            entries = plugin._kept_answers.scored(*asked).scores.entries
            if normalizing == NO_NORMALIZING:
                draft.score_rows(bytes(_integers(entries)))
                return
            values = values_by_node_class(table.columns, entries, len(table.node_classes))
            if values is not None:
                draft.score_node_classes(array("q", _integers(values)), reverse=normalizing == REVERSE)
                return
        if normalizing == NO_NORMALIZING:
            draft.score_asked(plugin._kept_answers.find(*asked).scores)
        else:
            draft.says_score()
            scores = plugin._kept_answers.find(*asked).scores
            terms = _GuestTerms(scores, draft.weight or 0, reverse=normalizing == REVERSE)
            draft.add_terms(Joined(plugin._bench, terms), asks=True)


@final
class _GuestTerms:
    """A guest's scores for a class of equal pods, if they must be normalised over the feasible nodes of each pod.

    The compiled lane decides pods of such a class one per kernel call, with the scores of other plugins. After any
    error the pod is left to the general lane, which calls the guest again and can report the error. `key` identifies
    everything that the scores depend on.
    """

    __slots__ = ("_scores", "_terms", "key")

    def __init__(self, scores: RowAnswers, weight: int, *, reverse: bool) -> None:
        self.key: Hashable = scores, weight, reverse
        self._scores = scores
        self._terms = JoinTerms(weight)
        self._terms.score_answers(scores, reverse)

    def current(self) -> JoinTerms:
        self._scores.refresh()
        return self._terms

    def renew(self) -> None:
        """Do nothing: the guest's scores are refreshed whenever `current` is called."""


class _Prepared(NamedTuple):
    """A guest's answer at PreFilter or PreScore for all pods that are equal in what it reads of them."""

    state: bytes | None
    skips: bool
    decides: bool  # the answer restricts the nodes or rejects the pod


def _can_be_compiled(points: Collection[Point], *, is_pure: bool) -> bool:
    """Return whether equal pods can share a guest's answers, so that it need not be called for each of them.

    The guest must not normalise scores itself. PreFilter and PreScore return a state for later calls: they are allowed
    for a pure guest only, with the Filter or Score that they belong to, and without extension points from Reserve on.
    """
    if Point.NORMALIZE_SCORE in points:
        return False
    for before, point in ((Point.PRE_FILTER, Point.FILTER), (Point.PRE_SCORE, Point.SCORE)):
        if before in points and (point not in points or not is_pure or max(points) >= Point.RESERVE):
            return False
    return True


def _prepared(point: Point) -> Callable[[PodAnswer, int], _Prepared]:
    def read(answer: PodAnswer, rows: int) -> _Prepared:
        status = status_of(answer, point)
        skips = status is not None and status.code is Code.SKIP
        return _Prepared(answer.state, skips, answer.only is not None or (status is not None and not skips))

    return read


def _integers(packed: bytes | memoryview) -> list[int]:
    return list(memoryview(packed).cast("B").cast("q"))


def with_state(read: Callable[[PodAnswer, int], T]) -> Callable[[PodAnswer, int], tuple[T, bytes | None]]:
    """Wrap `read`, which reads a guest's answer, so that it returns (its result, the state in the answer or None).

    The state is what the guest wants to get back in its next call for the pod.
    """
    return lambda answer, rows: (read(answer, rows), answer.state)


def status_reader(point: Point) -> Callable[[PodAnswer, int], Status | None]:
    return lambda answer, rows: status_of(answer, point)


def bounds(normalizing: str) -> tuple[int, int]:
    """Return the lowest and the highest raw score that are allowed with this kind of normalisation."""
    if normalizing == NO_NORMALIZING:
        return 0, MAX_NODE_SCORE
    return (-MAX_RAW if normalizing == GUEST else 0), MAX_RAW
