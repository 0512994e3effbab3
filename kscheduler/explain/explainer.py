"""Collects what this replica knows about one pod: its state, why it is not scheduled, and which events may change that.

It only reads queue, cache and recorded decisions. The document's fields are the endpoint's, in camelCase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kscheduler.api.objects import Pod
from kscheduler.cache.cache import Cache
from kscheduler.client.times import micro_time
from kscheduler.clock import Clock
from kscheduler.config.releases import Release
from kscheduler.counted import counted
from kscheduler.explain.claims import ClaimExplainer
from kscheduler.explain.decisions import DecisionLog
from kscheduler.explain.documents import decision_document
from kscheduler.explain.options import DEFAULT_TOP_NODES
from kscheduler.explain.record import DecisionRecord, Outcome
from kscheduler.framework.events import Action, EventResource, Registration, action_label, complete_registrations
from kscheduler.framework.runtime import Framework
from kscheduler.queue.backoff_queue import WINDOW_S, is_backing_off
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue

if TYPE_CHECKING:
    from kscheduler.explain.quotas import QuotaExplainer
    from kscheduler.explain.share_queues import ShareQueueExplainer, WaitingGang

Document = dict[str, Any]
# States of pods without a node that this scheduler is to place.
_PENDING = frozenset(pool.value for pool in Pool) | {"unobserved"}


class Leadership(NamedTuple):
    """The state of leader election: this replica's identity, whether it leads, and the Lease's holder ("" for none)."""

    identity: str
    leads: bool
    leader: str


class ExplainsGangs(Protocol):
    """Says how gangs stand (`gangs.explain`)."""

    def of_pod(self, uid: str, *, decides: bool = True) -> Document | None: ...

    def of_name(self, name: str, *, decides: bool = True) -> list[Document]: ...

    def reserved_from(self, pod: Pod) -> list[Document]: ...

    def waiting_with(self, uid: str) -> WaitingGang | None: ...


class Explainer:
    """Builds JSON documents that explain pods."""

    def __init__(
        self,
        decisions: DecisionLog,
        queue: SchedulingQueue,
        cache: Cache,
        profiles: Mapping[str, Framework],
        *,
        claims: ClaimExplainer,
        quotas: QuotaExplainer | None,
        share_queues: ShareQueueExplainer | None,
        clock: Clock,
        current_pod: Callable[[str], Pod | None],
        leadership: Callable[[], Leadership],
        waits_for: Callable[[str], Sequence[str]],
        max_in_unschedulable_s: float,
        gangs: ExplainsGangs | None,
    ) -> None:
        """Create an explainer.

        `current_pod`: namespace/name -> the pod as last seen by the watch, None if it is finished or does not exist.
        `waits_for`: pod uid -> names of the Permit plugins that the pod waits for. `quotas`, `share_queues`: None if no
        profile has the plugin.
        """
        self._decisions = decisions
        self._queue = queue
        self._cache = cache
        self._claims = claims
        self._quotas = quotas
        self._share_queues = share_queues
        self._clock = clock
        self._current_pod = current_pod
        self._leadership = leadership
        self._waits_for = waits_for
        self._max_in_unschedulable_s = max_in_unschedulable_s
        self._gangs = gangs
        self._registered = {name: _registered_events(framework, queue.release) for name, framework in profiles.items()}

    def explain(self, key: str, *, all_nodes: bool = False, top_nodes: int = DEFAULT_TOP_NODES) -> Document | None:
        """Return the document about a pod; None if the pod does not exist and no decision about it is recorded."""
        ring = self._decisions.ring
        # 1. Which pod is it, and what was decided?
        pod = self._current_pod(key)
        uid = ring.uid_of(key) if pod is None else pod.metadata.uid
        records = [] if uid is None else ring.of(uid)
        if pod is None and not records:
            return None
        # 2. Where is it now?
        queued = self._queue.get(pod.metadata.uid) if pod is not None else None
        state = self._state(pod, queued)
        # 3. Put it together. A standby has a queue, too, from which it takes nothing: that says nothing of the pod.
        leads, pending = self._leadership().leads, pod is not None and state in _PENDING
        return {
            "pod": _pod_document(key, pod, uid),
            "state": state if leads or not pending or (queued is not None and queued.gated_by) else "pending",
            "condition": _condition_document(pod) if pod is not None and pending else None,
            "summary": self._summary(state, pod, queued, records),
            "replica": self.replica(),
            "waitsForPermitOf": [] if uid is None else list(self._waits_for(uid)),
            "queue": None if queued is None or not leads else self._queue_document(queued),
            "gang": None if pod is None or self._gangs is None else self._gangs.of_pod(pod.metadata.uid, decides=leads),
            "reservations": self._gangs.reserved_from(pod) if pod and self._gangs and pending and leads else [],
            "claims": self._claims.explain(pod, self._cache.table if state in _PENDING else None) if pod else None,
            "quota": self._quotas.explain(pod) if pod and self._quotas and state in _PENDING else None,
            "shareQueue": self._share_queue(pod) if pod is not None and state in _PENDING else None,
            "decisions": [
                decision_document(record, self._wall, top_nodes=top_nodes, all_nodes=all_nodes and record is records[0])
                for record in records
            ],
            "record": {"decisions": len(ring), "bytes": ring.bytes, "evicted": ring.evicted},
        }

    def _share_queue(self, pod: Pod) -> Document | None:
        if self._share_queues is None:
            return None
        gang = None if self._gangs is None else self._gangs.waiting_with(pod.metadata.uid)
        return self._share_queues.explain(pod, gang)

    def explain_gang(self, key: str) -> Document | None:
        """Return the document about the gangs of this `namespace/name`, one for each API; None if there is none."""
        leads = self._leadership().leads
        found = [] if self._gangs is None else self._gangs.of_name(key, decides=leads)
        return {"gangs": found, "replica": self.replica()} if found else None

    def gang_absence(self, key: str) -> str:
        """Return a message that says why nothing is known about a gang."""
        if self._gangs is None:
            return "gangs are not scheduled here: no profile enables Coscheduling, and the gate GenericWorkload is off"
        return f"gang {key} is not known: neither its PodGroup nor a pod of it exists" + self._standing_by()

    def replica(self) -> Document:
        found = self._leadership()
        return {
            "identity": found.identity,
            "leads": found.leads,
            "leader": found.leader,
            "startedAt": self._wall(self._decisions.started),
        }

    def absence(self, key: str) -> str:
        """Return a message that says why nothing is known about a pod."""
        ring = self._decisions.ring
        words = f"pod {key} is not known: no unfinished pod has this name"
        if ring.evicted:
            words += f", and of finished ones only the last {counted(len(ring), 'decision is', 'decisions are')} kept"
        else:
            words += ", and nothing was decided about it since this replica started"
        return words + self._standing_by()

    def _standing_by(self) -> str:
        found = self._leadership()
        if found.leads:
            return ""
        return f". This replica stands by; {found.leader or 'nobody'} leads"

    # --- the pod's state ---

    def _state(self, pod: Pod | None, queued: QueuedPodInfo | None) -> str:
        if pod is None:
            return "gone"
        if pod.spec.node_name:
            return "bound"
        if pod.spec.scheduler_name not in self._registered:
            return "foreign"
        if queued is not None:
            return queued.pool.value
        if self._cache.get(pod.metadata.uid) is not None:
            return "binding"
        if self._queue.is_in_flight(pod.metadata.uid):
            return Pool.IN_FLIGHT.value
        return "unobserved"

    def _summary(self, state: str, pod: Pod | None, queued: QueuedPodInfo | None, records: list[DecisionRecord]) -> str:
        latest = records[0] if records else None
        if state == "bound":
            assert pod is not None
            return self._why_bound(pod, latest)
        if state == "foreign":
            assert pod is not None
            served = ", ".join(self._registered)
            return f"is left to scheduler {pod.spec.scheduler_name!r}; this one places pods of {served}"
        if state == "gone":
            return "is finished or deleted; " + _outcome(latest)
        if queued is not None and queued.gated_by is not None:
            return f"is held back by {queued.gated_by}, and not looked at until that changes"
        if queued is not None and queued.pool is Pool.GANG and self._gangs is not None:
            gang = self._gangs.of_pod(queued.uid, decides=self._leadership().leads)
            if gang is not None:
                return f"waits with its gang: {gang['summary']}"
        if latest is None:
            attempts = 0 if queued is None else queued.attempts
            words = f"waits, after {counted(attempts, 'attempt')}" if attempts else "waits for its first attempt"
            if standing_by := self._standing_by():  # whether there was an attempt, the leader alone knows
                return (words if attempts else "waits") + standing_by
            return words + ("; the decisions on it are not on record" if attempts else "")
        return _outcome(latest)

    def _why_bound(self, pod: Pod, latest: DecisionRecord | None) -> str:
        node = pod.spec.node_name
        if latest is not None and latest.node == node:
            return f"is on {node}, {_chosen_among(latest)}"
        if latest is not None:
            return f"is on {node}, where somebody else put it; " + _outcome(latest)
        if pod.spec.scheduler_name not in self._registered:
            return f"is on {node}, where scheduler {pod.spec.scheduler_name!r} or its author put it"
        words = f"is on {node}; there is no decision of this replica on record"
        standing_by = self._standing_by()
        if standing_by:
            return words + standing_by
        if self._decisions.ring.evicted:
            return words + ": it was forgotten for newer ones, or another replica or program made it"
        return words + ": another replica or program made it, or an earlier run of this one"

    # --- queue ---

    def _queue_document(self, queued: QueuedPodInfo) -> Document:
        now = self._clock.now()
        rejectors = sorted(queued.unschedulable_plugins | queued.pending_plugins)
        waits = queued.pool is Pool.UNSCHEDULABLE
        backs_off = queued.pool in (Pool.BACKOFF, Pool.ERROR_BACKOFF) or (waits and is_backing_off(queued, now))
        until = queued.backoff_expiration + WINDOW_S
        return {
            "pool": queued.pool.value,
            "attempts": queued.attempts,
            "since": self._wall(queued.timestamp),
            "backoffUntil": self._wall(until) if backs_off else None,
            "backoffSeconds": round(max(until - now, 0.0), 3) if backs_off else 0.0,
            "gatedBy": queued.gated_by or "",
            "rejectingPlugins": rejectors,
            "wokenWithoutBackoffBy": sorted(queued.pending_plugins),
            "wokenBy": self._wakers(queued, rejectors) if waits or queued.pool is Pool.GATED else [],
            "triedAgainBy": self._wall(queued.timestamp + self._max_in_unschedulable_s) if waits else None,
        }

    def _wakers(self, queued: QueuedPodInfo, rejectors: Iterable[str]) -> list[Document]:
        registered = self._registered.get(queued.pod_info.pod.spec.scheduler_name, {})
        return [{"plugin": plugin, **event} for plugin in rejectors for event in registered.get(plugin, ())]

    def _wall(self, moment: float) -> str:
        return micro_time(self._clock.wall() + moment - self._clock.now())


def _registered_events(framework: Framework, release: Release) -> dict[str, list[Document]]:
    """Return plugin -> the cluster events it registered for, which may make pods schedulable that it rejected."""
    return {
        plugin: list(map(_event_document, complete_registrations(registered, release)))
        for plugin, registered in framework.events_by_plugin().items()
    }


def _event_document(registered: Registration) -> Document:
    """Describe a registered cluster event; `narrowed` if a queueing hint may still skip the event for a pod."""
    event = registered.event
    resource = event.resource.value if isinstance(event.resource, EventResource) else event.resource
    return {"resource": resource, "actions": _actions(event.action), "narrowed": registered.hint is not None}


def _actions(action: Action) -> list[str]:
    """Return the actions of an event; all updates together are one, as is any action at all."""
    if action is Action.ALL or Action.UPDATE not in action:
        return action_label(action).split("|")
    others = action & ~Action.UPDATE
    return [*(action_label(others).split("|") if others else ()), action_label(Action.UPDATE)]


def _pod_document(key: str, pod: Pod | None, uid: str | None) -> Document:
    namespace, _, name = key.rpartition("/")
    return {
        "namespace": namespace,
        "name": name,
        "uid": uid or "",
        "schedulerName": "" if pod is None else pod.spec.scheduler_name,
        "priority": 0 if pod is None else pod.spec.priority or 0,
        "nodeName": "" if pod is None else pod.spec.node_name or "",
        "nominatedNodeName": "" if pod is None else pod.status.nominated_node_name,
    }


def _condition_document(pod: Pod) -> Document | None:
    """Return the pod's condition PodScheduled, as the scheduler that leads has written it; None if it has none."""
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled":
            return {
                "status": each.status,
                "reason": each.reason,
                "message": each.message,
                "since": each.last_transition_time or "",
            }
    return None


def _chosen_among(record: DecisionRecord) -> str:
    fitting = counted(record.feasible, "node that fits", "nodes that fit")
    return f"chosen among {fitting}, of {record.nodes:,}"


def _outcome(record: DecisionRecord | None) -> str:
    if record is None:
        return "nothing was decided about it"
    if record.outcome is Outcome.BOUND:
        return f"was bound to {record.node}"
    if record.outcome is Outcome.BINDING:
        return f"is being bound to {record.node}, {_chosen_among(record)}"
    message = "" if record.refusal is None else record.refusal.message
    if record.node:
        return f"was to go to {record.node}, and was sent back: {message}"
    return ("could not be judged: " if record.outcome is Outcome.FAULT else "fits nowhere: ") + message
