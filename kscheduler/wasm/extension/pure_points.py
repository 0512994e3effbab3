"""PreFilter, Filter and Score of guests that the user declares to depend only on pod and node objects (`pure: true`).

Answers are cached by the pod's look, a digest of all that the guest may read of it. A pod with a known look costs no
call, and a changed node costs one, so that the compiled lane can decide such pods. Side effects of a guest, such as
Events, occur only when it is called. Guests with exports for binding, for pods added and removed, or for normalizing
scores use the ordinary points.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable

from kscheduler._fast import Scores, Verdicts, clear_raw, reject_marked, set_raws, values_by_node_class
from kscheduler.errors import PluginError
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.interface import MAX_NODE_SCORE
from kscheduler.framework.status import Code
from kscheduler.input.int32 import MAX_INT32, MIN_INT32
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.wasm.extension.base import BINDING_EXPORTS, FOLLOWING_EXPORTS, ExtensionPlugin
from kscheduler.wasm.extension.cycles import Cycle
from kscheduler.wasm.extension.kept_answers import KeptAnswer, KeptAnswers, PreFiltered, look_of
from kscheduler.wasm.extension.points import FilterPoint, PreFilterPoint, ScorePoint
from kscheduler.wasm.loading.compiling import Version

_PERSONAL_EXPORTS = BINDING_EXPORTS | FOLLOWING_EXPORTS | {"normalizescore"}


class PurePoint(ExtensionPlugin):
    """The common part of a pure guest's extension points: the cache of its answers."""

    _answers: KeptAnswers | None = None  # None until the first use, and after a new version of the guest

    def replace(self, version: Version) -> None:
        """Switch to this version of the guest, drop the cached answers and have pod classes built again.

        Implements `Follower`.
        """
        super().replace(version)
        self._answers = None
        if self.table.columns.rows:
            self.table.node_changes.add(0)

    def look_beyond(self, pod: PodInfo) -> bytes:
        """Return a digest of all that the guest reads of the pod, for the pod's signature; b"" if nothing is cached."""
        return b"" if self.exports & _PERSONAL_EXPORTS else look_of(self._world.whole(pod.pod))

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        return self.look_beyond(pod) or None

    def known(self, cycle: Cycle) -> KeptAnswer | None:
        """Return the cached answer for the cycle's pod; None if no answers of this guest are cached."""
        if self.exports & _PERSONAL_EXPORTS:
            return None
        if cycle.look is None:
            cycle.look = look_of(cycle.shown)
        return self._kept.of(cycle.look)

    @property
    def _kept(self) -> KeptAnswers:
        if self._answers is None:
            self._answers = KeptAnswers(self.table)
        return self._answers

    def marked(self, cycle: Cycle, known: KeptAnswer) -> bool:
        """Bring the cached results of Filter up to date: call the guest about changed nodes.

        Returns False if that is not possible. Raises CycleFault if the guest fails.
        """
        kept = self._kept
        rows, now = kept.stale(known.seen_marks), kept.now
        if rows:
            judged = self.judge(cycle, rows)  # type: ignore[attr-defined]  # FilterPoint's
            found = [(row, judged.statuses[detail]) for row, detail in judged.rejected]
            if judged.is_left_out or not known.put_marks(rows, found, kept.row_count):
                return False
        known.put_marks((), (), kept.row_count)
        known.seen_marks = now
        return True

    def scored(self, cycle: Cycle, known: KeptAnswer) -> bool:
        """Bring the cached scores up to date: call the guest about changed nodes.

        Returns False if the guest failed and that is ignored, else raises CycleFault if it fails.
        """
        kept = self._kept
        rows, now = kept.stale(known.seen_scores), kept.now
        if rows:
            found = self.rate(cycle, rows)  # type: ignore[attr-defined]  # ScorePoint's
            if cycle.is_unscored:  # the guest failed and is ignored
                return False
            known.put_scores(rows, found, kept.row_count)
        known.put_scores((), (), kept.row_count)
        known.seen_scores = now
        return True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        """Add the guest's cached results of Filter and Score to a draft, by which kernels decide a class of equal pods.

        Returns False if they cannot be expressed that way.
        """
        draft.depends_on(Source.OBJECTS)
        cycle = Cycle(self._cycles, pod, self._world.whole(pod.pod))
        known = self.known(cycle)
        if known is None:
            return False
        try:
            return self._compile(draft, cycle, known)
        except CycleFault:
            return False
        finally:
            cycle.release()

    def _compile(self, draft: ClassDraft, cycle: Cycle, known: KeptAnswer) -> bool:
        names, status = self.pre_filtered(cycle, known)
        if names is not None or (status is not None and status.code is not Code.SKIP):
            return False
        if draft.is_filtering and status is None:
            if not self.marked(cycle, known):
                return False
            marks = array("q", [min(mark, 1) for mark in known.marks])
            verdicts = values_by_node_class(self.table.columns, marks.tobytes(), len(self.table.node_classes))
            if verdicts is None:  # they differ within a node class: they depend on more than labels, taints and cordons
                return False
            draft.filter_node_classes(bytes(memoryview(verdicts).cast("q").tolist()))
        if draft.weight is not None and not self.unscored(cycle, known):
            if not self.scored(cycle, known):
                return False
            alive = bytearray(len(known.scores))
            for info in self.table:
                alive[info.row] = 1
            scores = [score if is_alive else 0 for score, is_alive in zip(known.scores, alive, strict=True)]
            if scores and not 0 <= min(scores) <= max(scores) <= MAX_NODE_SCORE:
                return False
            draft.score_rows(bytes(scores))
        return True

    def pre_filtered(self, cycle: Cycle, known: KeptAnswer) -> PreFiltered:
        """Return the cached answer of PreFilter; if there is none, call `prefilter`. Success for a guest without it."""
        if known.pre_filtered is None:
            found = self.ask_pre_filter(cycle)
            if found[1] is not None and found[1].code is Code.ERROR:
                return found
            known.put_pre_filtered(found)
            return found
        return known.pre_filtered

    def unscored(self, cycle: Cycle, known: KeptAnswer) -> bool:
        """Return whether PreScore returns Skip; `prescore` is called the first time only.

        Raises CycleFault if it rejects.
        """
        if known.is_unscored is None:
            cycle.wants_pre_score = cycle.wants_pre_score or "prescore" in self.exports
            self.ask_pre_score(cycle, [info.name for info in self.table])
            known.is_unscored = cycle.is_unscored
        cycle.wants_pre_score = False
        cycle.is_unscored = known.is_unscored
        return known.is_unscored


class PurePreFilterPoint(PurePoint, PreFilterPoint):
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFiltered:
        cycle = self.cycle(state, pod)
        known = self.known(cycle)
        return self.ask_pre_filter(cycle) if known is None else self.pre_filtered(cycle, known)


class PureFilterPoint(PurePoint, FilterPoint):
    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        cycle = self.cycle(state, pod)
        known = self.known(cycle)
        if known is None or not self.marked(cycle, known):
            super().filter_table(state, pod, table, verdicts, code)
            return
        cycle.statuses = known.statuses
        reject_marked(verdicts, known.marks, code, len(known.statuses))


class PureScorePoint(PurePoint, ScorePoint):
    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        cycle = self.cycle(state, pod)
        known = self.known(cycle)
        if known is None:
            super().score_table(state, pod, table, verdicts, scores)
            return
        clear_raw(verdicts, scores)
        if not self.unscored(cycle, known) and self.scored(cycle, known):
            row = set_raws(verdicts, scores, memoryview(known.scores).cast("B"), MIN_INT32, MAX_INT32)
            if row >= 0:
                raise PluginError(f"expected a score of 32 bits for row {row}")
