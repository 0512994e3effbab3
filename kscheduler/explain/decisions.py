"""Records every scheduling decision, with details of each node as long as a time budget permits.

Collecting details of thousands of nodes takes longer than the decision itself, so it may use only a small share of all
time: occasional decisions are all recorded with details, in a burst only some are. Pods with the annotation
kscheduler.io/explain: details have a larger budget of their own, so that they have details in a burst, too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kscheduler.clock import Clock
from kscheduler.explain.details import NodeDetails, NodeNames, names_of, take_details
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.record import DecisionRecord, Outcome, Reason, Refusal
from kscheduler.explain.ring import DecisionRing
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Diagnosis
from kscheduler.framework.runtime import Framework
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.status import STATUS_LABELS, Status
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.explain.annotations import AnnotationLane

log = logging.getLogger(__name__)

NOTHING_REVIEWED: Mapping[str, Any] = {}
_BOUND: Final = Outcome.BOUND  # which costs more for each pod
SHARE = 0.005  # share of all time that may be spent on details
SAVED_S = 0.01  # limit of unspent time, enough for some ten decisions with details of thousands of nodes
ANNOTATION = "kscheduler.io/explain"  # annotation of a pod that requests details
DETAILS = "details"  # the annotation's value
ASKED_SHARE = 0.05  # the same for pods that request details; limited, so that a user cannot slow down others' pods
ASKED_SAVED_S = 0.1


class Allowance:
    """A time budget: it grows by `share` seconds per second, and at most `saved_s` unspent seconds are kept."""

    def __init__(self, share: float, saved_s: float) -> None:
        self._share = share
        self._saved_s = saved_s
        self.from_s = -math.inf  # the time from which the budget is available again

    def has_some(self, now: float) -> bool:
        return now >= self.from_s

    def spend(self, seconds: float, now: float) -> None:
        """Charge `seconds` to the budget.

        If that overdraws it, it is unavailable until passing time has filled it up again.
        """
        self.from_s = max(self.from_s, now - self._saved_s / self._share) + seconds / self._share


class DecisionLog:
    def __init__(
        self,
        options: DecisionLogOptions,
        table: NodeTable,
        clock: Clock,
        stopwatch: Callable[[], float],
        *,
        annotations: AnnotationLane | None = None,
    ) -> None:
        """Create an empty log of decisions.

        `annotations` writes decisions to their pods as well; None: they are not written. `stopwatch` returns seconds,
        and measures how much of the time budget is spent.
        """
        self.ring = DecisionRing(options.max_records, options.max_bytes)
        self.started = clock.now()
        self._top_nodes = options.top_nodes
        self._table = table
        self._stopwatch = stopwatch
        self.spare = Allowance(SHARE, SAVED_S)  # while there is some, decisions are made so that they have details
        self._asked = Allowance(ASKED_SHARE, ASKED_SAVED_S)
        self._names: NodeNames | None = None
        self._names_generation = -1  # the table's generation when the names were read
        self._has_failed = False
        self._annotations = annotations
        self.looked_at = 0  # nodes, for the placements that are recorded next; 0: all
        # Of pods whose placement is recorded next: uid -> what `review` has returned for that placement.
        self.reviewed: Mapping[str, Any] = NOTHING_REVIEWED

    @property
    def nodes(self) -> int:
        """How many nodes the cluster has."""
        return len(self._table)

    # --- reports of the scheduling cycle ---

    def decided(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        found: Decision | Rejection,
        now: float,
        *,
        looks_back: bool = True,
    ) -> None:
        """Record the result of a scheduling cycle.

        `looks_back`: nothing has changed since, so details may be collected.
        """
        record = self._record(queued, framework, state, found, now, looks_back=looks_back)
        self.ring.add(record)
        if record.refusal is not None:
            self._annotate(record.uid)

    def review(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState, found: Decision, now: float
    ) -> object:
        """Return what `decided` would record of the search that has just ended, for `reviewed` in case it counts."""
        return self._record(queued, framework, state, found, now, looks_back=True)

    def keep_details(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState, found: Rejection, now: float
    ) -> None:
        """Keep what the search that has just ended found out about the nodes, for when `decided` records its result."""
        allowance = self._allowance(queued, now)
        if allowance.has_some(now) and _looked_at_nodes(found):
            found.diagnosis.details = self._details(queued, framework, state, "", now, allowance)

    def _allowance(self, queued: QueuedPodInfo, now: float) -> Allowance:
        return self._asked if self.is_asked_for(queued.pod_info, now) else self.spare

    def _record(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        found: Decision | Rejection,
        now: float,
        *,
        looks_back: bool,
    ) -> DecisionRecord:
        pod = queued.pod_info
        record = DecisionRecord(pod.uid, pod.key, framework.profile, queued.attempts, now, len(self._table))
        if isinstance(found, Decision):
            record.node, record.evaluated, record.feasible = found.node_name, found.evaluated, found.feasible
        else:
            _write_rejection(record, found)
        allowance = self._allowance(queued, now)
        if looks_back and allowance.has_some(now) and _looked_at_nodes(found):
            record.details = self._details(queued, framework, state, record.node, now, allowance)
            record.bytes = record.measure()
        elif not looks_back and isinstance(found, Rejection):
            _write_kept(record, found.diagnosis)
        return record

    def placed(
        self, placed: Sequence[QueuedPodInfo], node_names: Sequence[str], feasible: Sequence[int], now: float
    ) -> None:
        """Record decisions of the compiled lane, of which only the node and the number of feasible nodes are known.

        Of those that are `reviewed` more is.
        """
        reviewed, self.reviewed = self.reviewed, NOTHING_REVIEWED
        nodes, records = len(self._table.node_names), []
        looked_at, self.looked_at = self.looked_at or nodes, 0
        for at, queued in enumerate(placed):
            pod, node_name, fitting = queued.pod_info.pod, node_names[at], feasible[at]
            metadata = pod.metadata
            key = f"{metadata.namespace}/{metadata.name}"  # as `pod.key`, without its two calls
            profile, attempt = pod.spec.scheduler_name, queued.attempts
            records.append(
                DecisionRecord(metadata.uid, key, profile, attempt, now, nodes, node_name, looked_at, fitting)
            )
        if reviewed:
            records = [known if (known := reviewed.get(each.uid)) is not None else each for each in records]
        self.ring.add_many(records)

    def first_asked_for(self, batch: Sequence[QueuedPodInfo], now: float) -> int:
        """Return the index in `batch` of the first pod whose annotation requests details of its decision.

        Pods before it can be decided together on the compiled lane, which has no details. Returns the length of `batch`
        if no pod requests them, or if the budget for such pods is spent.
        """
        for index, queued in enumerate(batch):
            if queued.pod_info.pod.metadata.annotations is not None and self.is_asked_for(queued.pod_info, now):
                return index
        return len(batch)

    def is_asked_for(self, pod: PodInfo, now: float) -> bool:
        """Return True if the pod's annotation requests details, and the budget for such pods permits them."""
        annotations = pod.pod.metadata.annotations
        return annotations is not None and annotations.get(ANNOTATION) == DETAILS and self._asked.has_some(now)

    def took(self, seconds: float, now: float, *, is_asked_for: bool = False) -> None:
        """Charge the budget for the time of a decision that was made by the slower general lane to have its details."""
        (self._asked if is_asked_for else self.spare).spend(seconds, now)

    def bound(self, uid: str, now: float) -> None:
        record = self.ring.latest.get(uid)
        if record is not None:  # as `DecisionRing.finish`, without its call
            record.outcome = _BOUND
            record.finished = now
        if self._annotations is not None:
            self._annotate(uid)

    def sent_back(self, uid: str, status: Status, now: float) -> None:
        """Record that Reserve, Permit, PreBind or Bind rejected the pod, or failed, after a node was chosen."""
        outcome = Outcome.REJECTED if status.is_rejected else Outcome.FAULT
        self.ring.finish(uid, outcome, now, Refusal(status.message, (status.plugin,) if status.plugin else ()))
        self._annotate(uid)

    def _annotate(self, uid: str) -> None:
        if self._annotations is not None and (records := self.ring.of(uid)):
            self._annotations.describe(records, self._top_nodes)

    # --- details ---

    def _details(
        self,
        queued: QueuedPodInfo,
        framework: Framework,
        state: CycleState,
        chosen: str,
        now: float,
        allowance: Allowance,
    ) -> NodeDetails | None:
        """Collect details by running plugins again. Return None if one raises, which must not affect the decision."""
        started = self._stopwatch()
        try:
            review = framework.algorithm.review(state, queued.pod_info)
            return take_details(review, self._names_of(review.rows), self._top_nodes, chosen)
        except Exception:
            if not self._has_failed:
                log.exception(
                    "details of a decision could not be recorded; this is reported once", extra={"pod": queued.key}
                )
            self._has_failed = True
            return None
        finally:
            allowance.spend(self._stopwatch() - started, now)

    def _names_of(self, rows: int) -> NodeNames:
        """Return row -> node name.

        The object returned last is shared by further decisions as long as no node has changed.
        """
        names = self._names
        if names is None or self._names_generation != self._table.static_generation or len(names.names) != rows:
            fresh = names_of(self._table, rows)
            if names is None or names.names != fresh.names:
                names = self._names = fresh
            self._names_generation = self._table.static_generation
        return names


def _write_rejection(record: DecisionRecord, rejection: Rejection) -> None:
    diagnosis, status = rejection.diagnosis, rejection.status
    record.outcome = Outcome.REJECTED if status.is_rejected else Outcome.FAULT
    record.evaluated = 0 if diagnosis.pre_filter_message else diagnosis.total_nodes
    plugins = diagnosis.unschedulable_plugins | diagnosis.pending_plugins
    counted = () if diagnosis.pre_filter_message else diagnosis.counted
    record.refusal = Refusal(
        status.message,
        tuple(sorted(plugins or filter(None, (status.plugin,)))),
        tuple(Reason(each.plugin, STATUS_LABELS[each.code], each.reasons, nodes) for each, nodes in counted),
        diagnosis.pre_filter_message,
        diagnosis.post_filter_message,
        rejection.nomination or "",
    )
    record.bytes = record.measure()


def _write_kept(record: DecisionRecord, diagnosis: Diagnosis) -> None:
    """Record what was kept of the search for a member of a gang."""
    fitted, details = diagnosis.fitted, diagnosis.details
    if fitted is not None:
        record.fitted, record.evaluated, record.feasible = fitted.node_name, fitted.evaluated, fitted.feasible
        details = fitted.details
    if isinstance(details, NodeDetails):
        record.details = details
        record.bytes = record.measure()


def _looked_at_nodes(found: Decision | Rejection) -> bool:
    """Return True if this cycle evaluated nodes. If not, the buffers still hold results of an earlier decision."""
    if isinstance(found, Decision):
        return True
    return found.status.is_rejected and bool(found.diagnosis.reasons)
