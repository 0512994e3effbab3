"""Reads the scheduler for the page. Everything here runs on the scheduler's loop, so each call is short and bounded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from kscheduler._fast.packing import changes_so_far, pack_amounts, rows_changed_since
from kscheduler.clock import Clock
from kscheduler.explain.explainer import Explainer, Leadership
from kscheduler.explain.record import Outcome
from kscheduler.observability.metrics import SLI_BOUNDS
from kscheduler.queue.backoff_queue import WINDOW_S, is_backing_off
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.scheduler import Scheduler
from kscheduler.serving.live.readings import (
    DECISIONS,
    QUEUE,
    FreeAmounts,
    MadeDecision,
    NodeReading,
    Numbers,
    QueueReading,
    Reading,
    WaitingPod,
)

MOST_ROWS = 150  # pods of each pool
MOST_DECISIONS = 150
MOST_PODS = 500  # listed of one node; kubelets run fewer
MOST_RESOURCES = 8  # shown of nodes, pods included
MOST_CHARACTERS = 400  # of a message
RENEW_S = 5.0  # nodes' names and labels are not handed over more often
PODS = "pods"

_POOLS = {pool: pool.value for pool in Pool}  # whose attribute `value` is a call
_OUTCOMES = {outcome: outcome.value for outcome in Outcome}


class SchedulerReader:
    """Takes readings of a scheduler, and answers questions about single pods and nodes."""

    def __init__(self, scheduler: Scheduler, explainer: Explainer | None, clock: Clock, max_waiting_s: float) -> None:
        """Create a reader.

        `explainer`: None if no decisions are kept. `max_waiting_s`: after so many seconds unschedulable pods are tried
        again without a change.
        """
        self._scheduler = scheduler
        self._explainer = explainer
        self._clock = clock
        self._max_waiting_s = max_waiting_s
        self._static = -1  # generation of the names and labels that were handed over last
        self._renewed = 0.0
        self._cursor: int | None = None  # in the log of changed rows; None: all rows have to be handed over
        self._resources: tuple[str, ...] = ()

    def forget(self) -> None:
        """Begin the next reading with all nodes."""
        self._cursor, self._static = None, -1

    def take(self, views: Collection[str], replica: Leadership) -> Reading:
        """Take a reading with what `views` show."""
        now, wall = self._clock.now(), self._clock.wall()
        return Reading(
            self._numbers(wall),
            {"identity": replica.identity, "leads": replica.leads, "leader": replica.leader},
            self._queue(now, wall) if QUEUE in views else None,
            self._decisions(now, wall) if DECISIONS in views else None,
            self._nodes(now),
        )

    # --- figures ---

    def _numbers(self, wall: float) -> Numbers:
        scheduler, metrics = self._scheduler, self._scheduler.measurements.metrics
        attempts = {"scheduled": 0.0, "unschedulable": 0.0, "error": 0.0}
        for (result, _), counter in metrics.schedule_attempts_total.items():
            attempts[result] = attempts.get(result, 0.0) + counter.value
        latency = [0] * (len(SLI_BOUNDS) + 1)
        for histogram in dict(metrics.pod_scheduling_sli_duration_seconds.items()).values():
            latency = [total + more for total, more in zip(latency, histogram.counts, strict=True)]
        sizes = scheduler.cache.sizes()
        return Numbers(
            wall,
            *scheduler.queue.counts(),
            len(scheduler.bindings),
            sizes["nodes"],
            sizes["pods"],
            attempts["scheduled"],
            attempts["unschedulable"],
            attempts["error"],
            metrics.preemption_attempts_total.value,
            metrics.bind_conflicts_total.value,
            latency,
            metrics.event_loop_lag_seconds.counts,
        )

    # --- pods ---

    def _queue(self, now: float, wall: float) -> QueueReading:
        queue = self._scheduler.queue
        first, past = queue.first_pods(MOST_ROWS), wall - now
        rows = [self._waiting(queued, at, now, past) for at, queued in enumerate(first.active, 1)]
        for pods in first[1:]:
            rows += [self._waiting(queued, None, now, past) for queued in pods]
        return QueueReading(rows, queue.rejected_by())

    def _waiting(self, queued: QueuedPodInfo, position: int | None, now: float, past: float) -> WaitingPod:
        pod, pool = queued.pod_info.pod, queued.pool
        retry_at = None
        if pool is Pool.UNSCHEDULABLE:
            retry_at = past + queued.timestamp + self._max_waiting_s
        elif pool is not Pool.ACTIVE and pool is not Pool.GATED and is_backing_off(queued, now):
            retry_at = past + queued.backoff_expiration + WINDOW_S
        decisions, reason = self._scheduler.decisions, ""
        if decisions is not None and (record := decisions.ring.latest.get(pod.metadata.uid)) is not None:
            reason = record.refusal.message if record.refusal is not None else ""
        return WaitingPod(
            f"{pod.metadata.namespace}/{pod.metadata.name}",
            _POOLS[pool],
            position,
            queued.pod_info.priority,
            queued.attempts,
            past + queued.timestamp,
            retry_at,
            tuple(queued.unschedulable_plugins | queued.pending_plugins),
            reason[:MOST_CHARACTERS],
        )

    def _decisions(self, now: float, wall: float) -> list[MadeDecision]:
        decisions, past = self._scheduler.decisions, wall - now
        if decisions is None:
            return []
        return [
            MadeDecision(
                record.key,
                past + record.at,
                record.attempt,
                _OUTCOMES[record.outcome],
                record.node,
                record.nodes,
                record.feasible,
                record.details is not None,
                "" if record.refusal is None else record.refusal.message[:MOST_CHARACTERS],
            )
            for record in islice(reversed(decisions.ring.latest.values()), MOST_DECISIONS)
        ]

    def explain(self, key: str) -> tuple[dict[str, Any] | None, str, FreeAmounts | None]:
        """Return the explanation of a pod, or None and why there is none; and what nodes have free, if it waits."""
        if self._explainer is None:
            return None, "this scheduler keeps no decisions: it runs with --explain-decisions=0", None
        found = self._explainer.explain(key)
        if found is None:
            return None, self._explainer.absence(key), None
        queued = self._scheduler.queue.get(found["pod"]["uid"])
        return found, "", None if queued is None else self._free(queued)

    def _free(self, queued: QueuedPodInfo) -> FreeAmounts:
        table = self._scheduler.cache.table
        names, columns = table.resources.names, table.columns
        asked = {names[column]: amount for column, amount in table.request_of(queued.pod_info).entries}
        at = {name: table.resources.column(name) for name in asked}
        requested = {name: pack_amounts(columns, "requested", at[name]) for name in asked}
        allocatable = {name: pack_amounts(columns, "allocatable", at[name]) for name in asked}
        free = FreeAmounts({**asked, PODS: 1}, table.names(), requested, allocatable)
        requested[PODS] = pack_amounts(columns, "pods")
        allocatable[PODS] = pack_amounts(columns, "allowed_pods")
        return free

    # --- nodes ---

    def _nodes(self, now: float) -> NodeReading | None:
        """Return the rows that have changed since the last reading; None if there are none.

        Where a node came, left, or changed its labels, all rows are handed over, though not more often than RENEW_S:
        until then the page shows the nodes as they were.
        """
        table = self._scheduler.cache.table
        columns = table.columns
        resources = self._shown_resources()
        cursor, self._cursor = self._cursor, changes_so_far(columns)
        if table.static_generation != self._static or resources != self._resources or cursor is None:
            if self._static >= 0 and now < self._renewed + RENEW_S:
                self._cursor = None
                return None
            self._static, self._renewed, self._resources = table.static_generation, now, resources
            return self._amounts(None, table.names(), table.labels())
        rows = rows_changed_since(columns, cursor)
        return None if rows == b"" else self._amounts(rows, None, None)

    def _amounts(
        self, rows: bytes | None, names: list[str] | None, labels: list[Mapping[str, str]] | None
    ) -> NodeReading:
        table = self._scheduler.cache.table
        if not table.columns.rows:
            nothing = tuple(b"" for _ in self._resources)
            return NodeReading(self._resources, rows, nothing, nothing, names, labels)
        columns = table.columns
        at = [table.resources.column(name) for name in self._resources[:-1]]
        requested = (*(pack_amounts(columns, "requested", column, rows) for column in at),)
        allocatable = (*(pack_amounts(columns, "allocatable", column, rows) for column in at),)
        return NodeReading(
            self._resources,
            rows,
            (*requested, pack_amounts(columns, "pods", 0, rows)),
            (*allocatable, pack_amounts(columns, "allowed_pods", 0, rows)),
            names,
            labels,
        )

    def _shown_resources(self) -> tuple[str, ...]:
        """Return the resources shown: cpu, memory, what further resources there are, and pods."""
        cpu, memory, _, *others = self._scheduler.cache.table.resources.names
        further = [name for name in others if not name.startswith("hugepages-")]
        return (cpu, memory, *further[: MOST_RESOURCES - 3], PODS)

    def node(self, name: str) -> dict[str, Any] | None:
        """Return a document about a node and its pods; None if there is no such node."""
        table = self._scheduler.cache.table
        info = table.get(name)
        if info is None:
            return None
        spec, names = info.node.spec, table.resources.names
        amounts = {
            resource: {
                "requested": info.requested_of(column),
                "allocatable": table.columns.allocatable(info.row, column),
            }
            for column, resource in enumerate(names[:64])
        }
        amounts[PODS] = {
            "requested": table.columns.pod_count(info.row),
            "allocatable": table.columns.allowed_pods(info.row),
        }
        return {
            "name": name,
            "unschedulable": bool(spec.unschedulable),
            "labels": dict(info.labels),
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in spec.taints or ()],
            "amounts": {key: value for key, value in amounts.items() if value["requested"] or value["allocatable"]},
            "pods": [{"pod": pod.key, "priority": pod.priority} for pod in islice(info.pods.values(), MOST_PODS)],
            "podsLeftOut": max(len(info.pods) - MOST_PODS, 0),
        }
