"""Judges the placements in a record of any scheduler by the scores of ours, and explains where they differ.

For each pod that a scheduler bound, our plugins filter and score all nodes as the record has them right before the
binding is reported. The node is the one we choose, or as good (chance decides between them), or it was the best in a
state a moment earlier or later: bindings are written beside later decisions, so that their order in the record is not
quite the order of decisions. A scheduler that samples nodes may take one that is less good. What remains is a
difference.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.config.types import Profile, SchedulerConfig
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.framework.algorithm import MIN_FEASIBLE_NODES_TO_FIND
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.input.decoding import json_decoder
from kscheduler.record.entries import Change, Start
from kscheduler.record.reader import RecordReader
from kscheduler.replay.replayed import ReplayedScheduler
from kscheduler.scheduler import Options
from kscheduler.snapshot.pod_info import PodInfo

WINDOW = 32  # bindings before and after one that may have been decided in another order
LOOKAHEAD = 4_096  # entries read ahead at most to find those after
KEPT = 100  # differences that are kept; the others are counted

_decode_pod = json_decoder(Pod)


class Explanation(enum.Enum):
    """Why a pod is on its node."""

    SAME = "on the node that kscheduler chooses"
    TIE = "on another node of equal score"
    ORDER = "on the best node of a moment earlier or later"
    SAMPLED = "on a node of a lower score, as sampling permits"
    LOWER = "on a node of a lower score"
    UNFIT = "on a node that does not fit"

    __hash__ = object.__hash__


UNEXPLAINED = frozenset({Explanation.LOWER, Explanation.UNFIT})


@dataclass(frozen=True, slots=True)
class Placement:
    """A recorded placement that is not explained. `node` is the recorded one, `best` is ours ("": none)."""

    at_s: float
    pod: str
    node: str
    best: str
    explanation: Explanation
    why: str  # the scores, or the reason against the node


@dataclass(slots=True)
class Judgement:
    """How the placements of a record are explained."""

    counts: dict[Explanation, int] = field(default_factory=lambda: dict.fromkeys(Explanation, 0))
    unexplained: list[Placement] = field(default_factory=list)  # the first KEPT

    @property
    def placements(self) -> int:
        return sum(self.counts.values())

    @property
    def is_explained(self) -> bool:
        return not any(self.counts[each] for each in UNEXPLAINED)


class _Judge(ReplayedScheduler):
    """Our plugins over the recorded state; nobody is preempted."""

    def _plugins_of(self, profile: Profile, handle: Handle) -> dict[str, list[tuple[Plugin, int]]]:
        return {point: each for point, each in super()._plugins_of(profile, handle).items() if point != "postFilter"}

    def framework_of(self, pod: Pod) -> Framework:
        return self.profiles[pod.spec.scheduler_name]


@dataclass(frozen=True, slots=True)
class _Bound:
    """A binding in the record."""

    at_s: float
    pending: PodInfo  # the pod as it was before
    placed: PodInfo


def judge(path: Path, config: SchedulerConfig) -> Judgement:
    """Judge the placements in one file of a record. `config`: of the scheduler that made them. Raises ConfigError."""
    reader = RecordReader(path)
    whole = replace(
        config,
        percentage_of_nodes_to_score=100,
        profiles=tuple(replace(each, percentage_of_nodes_to_score=100) for each in config.profiles),
    )
    start = Start(0, round(reader.header.started * 1e6), 0, True, False, 300.0, 0.0)
    judge = _Judge(whole, start, Options(first_on_tie=True, compiled_lane=False))
    samples = {each.scheduler_name: _percentage(config, each) != 100 for each in config.profiles}
    found = Judgement()
    recent: deque[_Bound] = deque(maxlen=WINDOW)
    ahead = _Ahead(entry for entry in reader if isinstance(entry, Change))
    for change in ahead:
        bound = _binding(judge, change, samples)
        if bound is not None:
            following = [each for later in ahead.queued if (each := _binding(judge, later, samples)) is not None]
            _explain(judge, bound, recent, following[:WINDOW], samples, found)
            recent.append(bound)
        judge.apply_change(change)
    return found


class _Ahead:
    """Changes, one by one, with those that follow."""

    def __init__(self, changes: Iterator[Change]) -> None:
        self._changes = changes
        self.queued: deque[Change] = deque()
        self._placements = 0

    def __iter__(self) -> Iterator[Change]:
        while True:
            self._read()
            if not self.queued:
                return
            yield self._pop()

    def _read(self) -> None:
        """Read ahead until enough placements follow."""
        while self._placements <= WINDOW and len(self.queued) < LOOKAHEAD:
            change = next(self._changes, None)
            if change is None:
                return
            self._placements += _may_place(change)
            self.queued.append(change)

    def _pop(self) -> Change:
        change = self.queued.popleft()
        self._placements -= _may_place(change)
        return change


def _may_place(change: Change) -> bool:
    return change.resource == "pods" and change.type == "MODIFIED" and b'"nodeName":"' in bytes(change.object)


def _binding(judge: _Judge, change: Change, ours: Mapping[str, object]) -> _Bound | None:
    """Return the binding that the change reports, if it is one of a pod of these schedulers."""
    if not _may_place(change):
        return None
    pod = _decoded(change)
    before = judge.pods.store.get(pod.key)
    if before is None or before.metadata.uid != pod.metadata.uid or before.spec.node_name:
        return None
    if not pod.spec.node_name or pod.spec.scheduler_name not in ours:
        return None
    apart, counts_claims = judge.release.sums_resizes_apart, judge.release.counts_node_resources
    return _Bound(change.at, PodInfo(before, apart), PodInfo(pod, apart, counts_claims))


def _decoded(change: Change) -> Pod:
    try:
        return _decode_pod(change.object)
    except DecodeError as error:
        raise ConfigError(f"expected a pod: {error}") from None


def _explain(
    judge: _Judge,
    bound: _Bound,
    recent: Sequence[_Bound],
    following: Sequence[_Bound],
    samples: Mapping[str, bool],
    found: Judgement,
) -> None:
    explanation, best, why = _look(judge, bound)
    if explanation in UNEXPLAINED:
        others = [each for each in following if each.pending.uid != bound.pending.uid]
        if _was_best(judge, bound, recent, others):
            explanation = Explanation.ORDER
        elif explanation is Explanation.LOWER and _samples(judge, samples[bound.pending.pod.spec.scheduler_name]):
            explanation = Explanation.SAMPLED
    found.counts[explanation] += 1
    if explanation in UNEXPLAINED and len(found.unexplained) < KEPT:
        node = bound.placed.pod.spec.node_name
        found.unexplained.append(Placement(bound.at_s, bound.pending.key, node, best, explanation, why))


def _samples(judge: _Judge, is_configured: bool) -> bool:
    """Return True if the scheduler need not have looked at all nodes."""
    return is_configured and len(judge.cache.table) >= MIN_FEASIBLE_NODES_TO_FIND


def _look(judge: _Judge, bound: _Bound) -> tuple[Explanation, str, str]:
    """Search a node for the pod in the present state: the explanation, our node, and why it is another one."""
    pod, node_name = bound.pending, bound.placed.pod.spec.node_name
    framework, state = judge.framework_of(pod.pod), CycleState()
    found = framework.schedule_pod(state, pod)
    if isinstance(found, Decision) and found.node_name == node_name:
        return Explanation.SAME, found.node_name, ""
    node = judge.cache.table.get(node_name)
    if node is None:
        return Explanation.UNFIT, _node_of(found), f"there is no node {node_name}"
    if isinstance(found, Rejection):
        return Explanation.UNFIT, "", found.message
    review = framework.algorithm.review(state, pod)
    if found.evaluated == 1 or node.row not in review.feasible_rows():
        status = next((each for each, rows in review.rejected_rows() if node.row in rows), None)
        return Explanation.UNFIT, found.node_name, "" if status is None else status.message
    best = judge.cache.table.get(found.node_name)
    assert best is not None
    ours, theirs = review.total(best.row), review.total(node.row)
    if ours == theirs:
        return Explanation.TIE, found.node_name, ""
    return Explanation.LOWER, found.node_name, f"{theirs} against {ours}"


def _node_of(found: Decision | Rejection) -> str:
    return found.node_name if isinstance(found, Decision) else ""


def _was_best(judge: _Judge, bound: _Bound, recent: Sequence[_Bound], following: Sequence[_Bound]) -> bool:
    """Return True if the node was best without some of the latest bindings, or with some of the next ones."""
    removed: list[PodInfo] = []
    cache = judge.cache
    try:
        for without in range(min(len(recent), WINDOW) + 1):
            if without:
                latest = recent[-without].placed
                if cache.remove_pod(latest.uid) is None:
                    continue
                removed.append(latest)
            if _was_best_with(judge, bound, following):
                return True
        return False
    finally:
        for pod in removed:
            cache.set_pod(pod)


def _was_best_with(judge: _Judge, bound: _Bound, following: Iterable[_Bound]) -> bool:
    """Return True if the node is best now, or with some of the next bindings made before."""
    cache, added = judge.cache, []
    try:
        if _look(judge, bound)[0] not in UNEXPLAINED:
            return True
        for each in following:
            if cache.get(each.placed.uid) is not None:
                continue
            cache.set_pod(each.placed)
            added.append(each.placed.uid)
            if _look(judge, bound)[0] not in UNEXPLAINED:
                return True
        return False
    finally:
        for uid in added:
            cache.remove_pod(uid)


def _percentage(config: SchedulerConfig, profile: Profile) -> int:
    own = profile.percentage_of_nodes_to_score
    return config.percentage_of_nodes_to_score if own is None else own
