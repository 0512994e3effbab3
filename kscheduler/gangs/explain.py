"""Says how a gang stands: what it has, what it waits for, and how its latest attempt ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.api.objects import Pod
from kscheduler.clock import Clock
from kscheduler.explain.documents import decision_document
from kscheduler.explain.record import DecisionRecord
from kscheduler.explain.share_queues import WaitingGang
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.mending import Mending
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.reports import GangReports
from kscheduler.gangs.reservations import Reservation, Reservations
from kscheduler.gangs.texts import lack, placed_text
from kscheduler.gangs.tracked_gang import Stage, TrackedGang
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.pod_demand import Demand

Document = dict[str, Any]


class GangExplainer:
    def __init__(
        self,
        registry: Registry,
        queue: GangQueue,
        reports: GangReports,
        mending: Mending,
        clock: Clock,
        reservations: Reservations | None,
        *,
        reclaims_for: Callable[[QueuedPodInfo], Demand | None],
        latest_of: Callable[[str], DecisionRecord | None],
    ) -> None:
        """`reservations`: of room for gangs; None if none is ever kept.

        `reclaims_for(entry)`: what a gang in the queue takes room of other queues with shares for.
        `latest_of(uid)`: the latest recorded decision about a pod.
        """
        self._registry = registry
        self._queue = queue
        self._reports = reports
        self._mending = mending
        self._clock = clock
        self._reservations = reservations
        self._reclaims_for = reclaims_for
        self._latest_of = latest_of

    def of_pod(self, uid: str, *, decides: bool = True) -> Document | None:
        """Return the document about the gang of a pod; None for a pod that is in none.

        `decides`: this replica leads; if not, the document has nothing of the queue and of attempts.
        """
        member = self._registry.members.get(uid)
        return None if member is None else self._document(member.tracked, decides=decides)

    def of_name(self, name: str, *, decides: bool = True) -> list[Document]:
        """Return the documents of the gangs with this `namespace/name`: at most one for each API. See `of_pod`."""
        return [self._document(tracked, decides=decides) for tracked in self._registry if str(tracked.key) == name]

    def reserved_from(self, pod: Pod) -> list[Document]:
        """Return a document about each room that a waiting pod must leave to a gang."""
        if self._reservations is None:
            return []
        priority, queue = pod.spec.priority or 0, self._reservations.queue_of(pod)
        return [
            self._reservation_document(self._reservations, held)
            for held in self._reservations.held.values()
            if pod.metadata.uid not in held.nodes and held.keeps_out(priority, queue)
        ]

    def waiting_with(self, uid: str) -> WaitingGang | None:
        """Return what the gang asks for in which a pod waits; None if it waits in none."""
        member = self._registry.members.get(uid)
        stand_in = None if member is None else self._queue.stand_in(member.tracked.entry.key)
        if member is None or stand_in is None:
            return None
        return WaitingGang(max(member.tracked.entry.missing, 1), self._reclaims_for(stand_in))

    def _reservation(self, key: GangKey) -> Document | None:
        """Return the document about the room that is reserved for a gang; None if none is."""
        held = None if self._reservations is None else self._reservations.held.get(key)
        if self._reservations is None or held is None:
            return None
        return self._reservation_document(self._reservations, held)

    def _reservation_document(self, reservations: Reservations, held: Reservation) -> Document:
        failing_s = reservations.failing_s(held.key)
        return {
            "gang": str(held.key),
            "queue": held.queue,  # with shares; "" for none
            "pods": len(held.nodes),
            "nodes": sorted(set(held.nodes.values())),
            "heldForSeconds": round(self._clock.now() - held.since, 3),
            "failingForSeconds": None if failing_s is None else round(failing_s, 3),
            "podsAwaited": held.room.awaited,  # when the nodes were chosen
        }

    def _document(self, tracked: TrackedGang, *, decides: bool) -> Document:
        key, now = tracked.key, self._clock.now()
        entry = tracked.entry.key  # of a group in a composite group, that of the topmost one
        latest = self._reports.latest.get(entry) if decides else None
        broken_since = self._mending.broken_since.get(key) if decides else None
        stand_in = self._queue.stand_in(entry) if decides else None
        return {
            "api": key.api,
            "namespace": key.namespace,
            "name": key.name,
            "summary": self._summary(tracked, decides=decides),
            "minMembers": None if tracked.gang is None else tracked.gang.min_members,
            "members": {
                "known": len(tracked.members),
                "gated": tracked.gated,
                "queued": tracked.count(Stage.QUEUED),
                "inFlight": tracked.count(Stage.IN_FLIGHT),
                "assumed": tracked.count(Stage.ASSUMED),
                "bound": tracked.count(Stage.BOUND),
                "succeeded": tracked.succeeded,
            },
            "topology": self._topology(tracked),
            "pool": None if stand_in is None else stand_in.pool.value,
            "attempts": 0 if stand_in is None else stand_in.attempts,
            "latestAttempt": None
            if latest is None
            else {
                "outcome": latest.outcome.value,
                "secondsAgo": round(now - latest.at, 3),
                "text": latest.text,
                "stoppedBy": self._stopper(latest.stopped_by),
            },
            "brokenForSeconds": None if broken_since is None else round(now - broken_since, 3),
            "reservation": self._reservation(key) if decides else None,
            "isStale": decides and key in self._mending.stale,
        }

    def _stopper(self, uid: str) -> Document | None:
        """Return the document about the first pod of the gang that fits nowhere; None if that is not on record."""
        record = self._latest_of(uid) if uid else None
        if record is None or record.refusal is None:
            return None
        made = decision_document(record, float)
        fields = ("nodes", "evaluated", "preFilter", "plugins", "message", "reasons", "reasonsLeftOut")
        return {"pod": record.key, **{field: made[field] for field in fields}}

    def _topology(self, tracked: TrackedGang) -> Document | None:
        """Return the node labels by which the gang's pods are to be near to each other; None if it names none."""
        topology = None if tracked.gang is None else tracked.gang.topology
        if topology is None:
            return None
        return {"required": topology.required, "preferred": list(topology.preferred)}

    def _summary(self, tracked: TrackedGang, *, decides: bool) -> str:
        key: GangKey = tracked.key
        why = lack(tracked)
        if why:
            return why
        if tracked.gang is not None and tracked.placed >= tracked.gang.min_members:
            return placed_text(tracked)
        if tracked.is_broken and self._registry.rules.mends:
            return f"{placed_text(tracked)}; it comes before others of its priority until its minimum is reached"
        if not decides:
            return f"gang {key} has all that it needs to be tried; only the leader knows what came of its attempts"
        latest = self._reports.latest.get(tracked.entry.key)
        return f"gang {key} waits for its first attempt" if latest is None else latest.text
