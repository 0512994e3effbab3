"""Pods that failed and wait out their backoff: rejected ones, and apart from them those that hit a fault.

Both leave when their one-second window has passed. Only rejected ones may be taken early, when nothing else is left to
schedule: trying again soon after a fault would hammer whatever is broken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from kscheduler.queue.active_queue import LessKey
from kscheduler.queue.backoff import WINDOW_S, window
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.queue.pod_lanes import PodLanes


class BackoffQueue:
    __slots__ = ("_faulted", "_less_key", "_rejected")

    def __init__(self, less_key: LessKey, tickets: Iterator[int]) -> None:
        self._less_key = less_key  # orders pods within a window
        self._rejected = PodLanes(tickets)
        self._faulted = PodLanes(tickets)

    def __len__(self) -> int:
        return len(self._rejected) + len(self._faulted)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._rejected, self._faulted)

    def push(self, qpi: QueuedPodInfo) -> None:
        """Whether a pod was rejected or hit a fault shows in its rejectors: a fault has none."""
        qpi.pool = Pool.BACKOFF if qpi.has_rejectors else Pool.ERROR_BACKOFF
        self._lanes_of(qpi).push(qpi, self._key(qpi))

    def pop_early(self, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        """The lane's rejected pod whose wait ends first, over or not."""
        return self._rejected.pop(lane)

    def early_lanes(self) -> list[Lane]:
        """The lanes but the plain one that have such a pod, the earliest first."""
        firsts = [qpi for qpi in self._rejected.firsts() if qpi.lane != PLAIN]
        return [qpi.lane for qpi in sorted(firsts, key=lambda qpi: (*self._key(qpi), qpi.ticket))]

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Take the pods whose window has passed: rejected ones first, each kind lane by lane.

        Within a lane they come by window, then in queue order.
        """
        current = window(now)
        for lanes in filter(None, (self._rejected, self._faulted)):
            for lane in (PLAIN, *lanes.others()):
                while (first := lanes.first(lane)) is not None and first.backoff_expiration < current:
                    lanes.pop(lane)
                    yield first

    def remove(self, qpi: QueuedPodInfo) -> None:
        self._lanes_of(qpi).remove(qpi)

    def next_completion(self) -> float:
        """When the first wait is over; infinity if nobody waits."""
        if not self._rejected and not self._faulted:
            return math.inf
        firsts = chain(self._rejected.firsts(), self._faulted.firsts())
        return min((first.backoff_expiration + WINDOW_S for first in firsts), default=math.inf)

    def _key(self, qpi: QueuedPodInfo) -> tuple[float, ...]:
        return (qpi.backoff_expiration, *self._less_key(qpi))

    def _lanes_of(self, qpi: QueuedPodInfo) -> PodLanes:
        return self._rejected if qpi.pool is Pool.BACKOFF else self._faulted

    def check(self) -> None:
        self._rejected.check()
        self._faulted.check()
        assert all(qpi.pool is Pool.BACKOFF for qpi in self._rejected), "a pod in the backoff heap says elsewhere"
        assert all(qpi.pool is Pool.ERROR_BACKOFF for qpi in self._faulted), "a pod in the error heap says elsewhere"
