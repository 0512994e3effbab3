"""A pod that waits for a node, with the history of its attempts.

Exactly one pool holds it, or a scheduling cycle does:

    ACTIVE --pop--> IN_FLIGHT --rejected--> UNSCHEDULABLE --event--> BACKOFF --second over--> ACTIVE
                        |                        |                                             ^
                        +--fault--> ERROR_BACKOFF+--event, backoff over------------------------+

A pod that a PreEnqueue plugin gates is GATED; it is kept with the unschedulable pods. GANG and PARKED exist only
where gangs are scheduled (`gangs/gang_queue.py`).
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

import msgspec

from kscheduler.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.quotas.pod_demand import Demand

NOBODY: frozenset[str] = frozenset()
NO_BACKOFF = -math.inf  # an expiration that lies before every moment

# A lane is the set of pods that call the same extenders; its name is their positions. Pods are popped lane by lane.
Lane = tuple[int, ...]
PLAIN: Lane = ()  # the lane of pods that no extender is interested in


class Pool(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"  # rejected, may be popped early when nothing is active
    ERROR_BACKOFF = "error-backoff"  # the attempt met a fault; never popped early
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    GANG = "gang"  # held by its gang, which is queued in its place
    PARKED = "parked"  # a gang that cannot be tried yet: it lacks pods, or its object
    IN_FLIGHT = "in-flight"  # popped, not back yet
    GONE = "gone"  # bound, deleted, or never added


class QueuedPodInfo(msgspec.Struct, eq=False, gc=False):
    """A pod in the queue, as kube-scheduler's QueuedPodInfo; only the queue changes it. Times are monotonic seconds."""

    pod_info: PodInfo
    timestamp: float  # when it was added, or returned from its last attempt
    initial_attempt_timestamp: float | None = None  # when it first became active; None while gated from the start
    attempts: int = 0  # how often it was popped
    unschedulable_count: int = 0  # how often it was rejected; never reset
    consecutive_errors_count: int = 0  # faults since the last rejection
    unschedulable_plugins: frozenset[str] = NOBODY  # plugins that rejected it in the last attempt, or gate it
    pending_plugins: frozenset[str] = NOBODY  # plugins that rejected it with PENDING: their events skip backoff
    gated_by: str | None = None  # the PreEnqueue plugin that gates it
    backoff_expiration: float = NO_BACKOFF
    was_deferred: bool = False  # put aside once, so that its next attempt takes place
    was_flushed: bool = False  # left the unschedulable pool by timeout since its last attempt
    flushed_at: float = -math.inf  # when it did so last without being attempted since, being gated
    pool: Pool = Pool.GONE
    ticket: int = 0  # number of its valid entry in the heap of its pool; 0: in no heap
    lane: Lane = PLAIN  # the extenders that it calls; constant while it is in a heap
    demand: Demand | None = None  # on its queue with shares, when it was last put into a heap of such queues
    waits_since: int = 0  # while unschedulable or gated: events with a lower number do not concern it
    in_flight_since: int = 0  # while in flight: the number of the first event that it may have missed

    @property
    def uid(self) -> str:
        return self.pod_info.uid

    @property
    def key(self) -> str:
        return self.pod_info.key

    @property
    def waits_from(self) -> float:
        """The moment from which a timeout counts, in the queue's seconds."""
        return max(self.timestamp, self.flushed_at)

    @property
    def has_rejectors(self) -> bool:
        return bool(self.unschedulable_plugins or self.pending_plugins)
