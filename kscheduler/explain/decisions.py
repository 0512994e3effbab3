"""Writes down every decision while it is made: cheap facts always, what each node said as long as it costs little.

Looking at thousands of nodes takes longer than the decision did. So it has an allowance: a small share of the time
that passes. Where decisions are rare all of them are written down in full; in a burst only some are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kscheduler.clock import Clock
from kscheduler.explain.details import NodeDetails, NodeNames, names_of, take_details
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.explain.record import DecisionRecord, Outcome, Reason
from kscheduler.explain.ring import DecisionRing
from kscheduler.framework.algorithm import Decision, Rejection
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.runtime import Framework
from kscheduler.framework.status import STATUS_LABELS, Status
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.node_table import NodeTable

log = logging.getLogger(__name__)

SHARE = 0.01  # of all time may go into details
SAVED_S = 0.02  # unspent allowance grows up to this: some twenty decisions among thousands of nodes


class DecisionLog:
    def __init__(
        self, options: DecisionLogOptions, table: NodeTable, clock: Clock, stopwatch: Callable[[], float]
    ) -> None:
        self.ring = DecisionRing(options.max_records, options.max_bytes)
        self.started = clock.wall()
        self._top_nodes = options.top_nodes
        self._table = table
        self._clock = clock
        self._stopwatch = stopwatch
        self._allowance_s = SAVED_S
        self._allowed_until = stopwatch()  # up to when time has been turned into allowance
        self._names: NodeNames | None = None
        self._names_generation = -1  # of the table, when the names were read
        self._has_failed = False

    # --- what the scheduling cycle tells ---

    def decided(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState, found: Decision | Rejection
    ) -> None:
        """The search is over, and nothing has changed since."""
        pod = queued.pod_info
        record = DecisionRecord(
            pod.uid, pod.key, framework.profile, queued.attempts, self._clock.wall(), Outcome.BINDING
        )
        record.nodes = len(self._table)
        if isinstance(found, Decision):
            record.node, record.evaluated, record.feasible = found.node_name, found.evaluated, found.feasible
        else:
            _write_rejection(record, found)
        if _looked_at_nodes(found) and self._may_spend():
            record.details = self._details(queued, framework, state, record.node)
        self.ring.add(record)

    def bound(self, uid: str) -> None:
        self.ring.finish(uid, Outcome.BOUND, self._clock.wall())

    def sent_back(self, uid: str, status: Status) -> None:
        """After a node was found: by Reserve, Permit, PreBind or Bind."""
        outcome = Outcome.REJECTED if status.is_rejected else Outcome.FAULT
        record = self.ring.finish(uid, outcome, self._clock.wall(), status.message)
        if record is not None and status.plugin:
            record.plugins = (status.plugin,)

    # --- details ---

    def _may_spend(self) -> bool:
        now = self._stopwatch()
        self._allowance_s = min(self._allowance_s + (now - self._allowed_until) * SHARE, SAVED_S)
        self._allowed_until = now
        return self._allowance_s > 0

    def _details(
        self, queued: QueuedPodInfo, framework: Framework, state: CycleState, chosen: str
    ) -> NodeDetails | None:
        """None if a plugin cannot be asked again; that must not cost the pod its decision."""
        started = self._stopwatch()
        try:
            review = framework.review(state, queued.pod_info)
            return take_details(review, self._names_of(review.rows), self._top_nodes, chosen)
        except Exception:
            if not self._has_failed:
                log.exception("a decision's details could not be kept; said once", extra={"pod": queued.key})
            self._has_failed = True
            return None
        finally:
            self._allowance_s -= self._stopwatch() - started

    def _names_of(self, rows: int) -> NodeNames:
        """Those read last, as long as the nodes are the same."""
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
    record.message = status.message
    record.evaluated = 0 if diagnosis.pre_filter_message else diagnosis.total_nodes
    record.plugins = tuple(sorted(diagnosis.unschedulable_plugins | diagnosis.pending_plugins)) or (
        (status.plugin,) if status.plugin else ()
    )
    record.pre_filter = diagnosis.pre_filter_message
    record.post_filter = diagnosis.post_filter_message
    record.nominated = rejection.nomination or ""
    if not record.pre_filter:
        record.reasons = tuple(
            Reason(each.plugin, STATUS_LABELS[each.code], each.reasons, nodes) for each, nodes in diagnosis.counted
        )


def _looked_at_nodes(found: Decision | Rejection) -> bool:
    """Is there more to tell than the record says? After a fault, or without a look at nodes, buffers hold old news."""
    if isinstance(found, Decision):
        return True
    return found.status.is_rejected and bool(found.diagnosis.reasons)
