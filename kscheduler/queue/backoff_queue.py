"""The backoffQ, and how long a backoff lasts: kube-scheduler's arithmetic.

The n-th failure in a row waits initial·2^(n−1) seconds, at most `max_s`. The end of the wait is truncated to a whole
second, its *window*: a pod backs off until that second is over, and pods of one window leave together, in queue order.
Times are monotonic seconds; windows are whole seconds of that clock.

Rejected pods and pods whose attempt met a fault are kept apart. Only rejected pods may be popped early, when no pod is
active: a quick retry after a fault would add load to whatever is broken.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from kscheduler.queue.active_queue import LessKey
from kscheduler.queue.pod_heap import PodLanes
from kscheduler.queue.pod_info import NO_BACKOFF, PLAIN, Lane, Pool, QueuedPodInfo

WINDOW_S = 1.0
_MAX_DOUBLINGS = 62  # beyond any configurable maximum, and 2.0**n does not overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    initial_s: float = 1.0
    max_s: float = 10.0  # 0 switches backoff off

    def delay_s(self, failures: int) -> float:
        """Return the backoff in seconds after `failures` failures in a row; 0 after none."""
        if failures <= 0 or self.max_s == 0:
            return 0.0
        return float(min(self.max_s, self.initial_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)))

    def expiration(self, qpi: QueuedPodInfo) -> float:
        """Return the window (whole second) in which the pod's backoff ends; NO_BACKOFF if it has none.

        The backoff counts from the pod's timestamp. After a fault only consecutive faults count: many earlier
        rejections must not make one lost connection a long backoff.
        """
        failures = qpi.consecutive_errors_count or qpi.unschedulable_count
        if failures == 0 or self.max_s == 0:
            return NO_BACKOFF
        return window(qpi.timestamp + self.delay_s(failures))


def window(moment: float) -> float:
    """Return the start of the window (a whole second) that contains the time `moment`, in monotonic seconds."""
    return math.floor(moment / WINDOW_S) * WINDOW_S


def is_backing_off(qpi: QueuedPodInfo, now: float) -> bool:
    """Return True if the pod's backoff is not over: it lasts until the end of the whole second in which it expires."""
    return qpi.backoff_expiration >= window(now)


class BackoffQueue:
    __slots__ = ("_faulted", "_less_key", "_rejected", "pods")

    def __init__(self, less_key: LessKey, tickets: Iterator[int]) -> None:
        self._less_key = less_key  # orders pods within a window
        self._rejected = PodLanes(tickets)
        self._faulted = PodLanes(tickets)
        self.pods = 0  # number of pods; changed in this class only

    def __len__(self) -> int:
        return self.pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._rejected, self._faulted)

    def first(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods in the order in which their backoffs end, without removing them."""
        both = heapq.merge(self._rejected.entries_in_order(), self._faulted.entries_in_order())
        return [entry[-1] for entry in islice(both, most)]

    def push(self, qpi: QueuedPodInfo) -> None:
        """Add a pod: to the rejected pods if plugins rejected it, else to the pods that met a fault."""
        qpi.pool = Pool.BACKOFF if qpi.has_rejectors else Pool.ERROR_BACKOFF
        self._lanes_of(qpi).push(qpi, self._key(qpi))
        self.pods += 1

    def pop_early(self, lane: Lane) -> QueuedPodInfo | None:
        """Pop the rejected pod of the lane whose backoff ends first, even if it is not over; None if there is none.

        A lane has the pods that call the same extenders; the plain lane those that call none.
        """
        if not self.pods:
            return None
        qpi = self._rejected.pop(lane)
        self.pods -= qpi is not None
        return qpi

    def early_lanes(self) -> list[Lane]:
        """Return the lanes (sets of pods that call the same extenders) with rejected pods, the earliest backoff first.

        The plain lane, whose pods call none, is left out.
        """
        return self._rejected.in_order(self._key)

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Remove and yield the pods whose backoff is over: first rejected pods, then those that met a fault.

        Both come by lane (pods that call the same extenders); within a lane in order of windows, then in queue order.
        """
        current = window(now)
        for lanes in filter(None, (self._rejected, self._faulted)):
            for lane in (PLAIN, *lanes.others()):
                while (first := lanes.first(lane)) is not None and first.backoff_expiration < current:
                    lanes.pop(lane)
                    self.pods -= 1
                    yield first

    def remove(self, qpi: QueuedPodInfo) -> None:
        self._lanes_of(qpi).remove(qpi)
        self.pods -= 1

    def next_completion(self) -> float:
        """Return when the first backoff is over, in monotonic seconds; infinity if there are no pods."""
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
        held = len(self._rejected) + len(self._faulted)
        assert self.pods == held, f"the backoff queue counts {self.pods} pods and holds {held}"
        assert all(qpi.pool is Pool.BACKOFF for qpi in self._rejected), "a pod in the backoff heap says elsewhere"
        assert all(qpi.pool is Pool.ERROR_BACKOFF for qpi in self._faulted), "a pod in the error heap says elsewhere"
