"""Timers of pods that a plugin wants tried again at a certain time, whatever their backoff."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count

from kscheduler.clock import Clock
from kscheduler.snapshot.pod_info import PodInfo

MAX_KEPT = 65_536  # pods that wait for a later moment; the queue tries others in its own time
# Between two tries of a pod that asks for each at once, as one does whose own moment is over and nothing has changed:
# a try costs well under a millisecond, so that it takes 1 % of the time from others at most.
SOONEST_S = 0.1


class PodTimers:
    """One timer for each pod. `wake` is called when a new timer ends before all others, for a loop that sleeps."""

    def __init__(self, clock: Clock, wake: Callable[[], object]) -> None:
        self._clock = clock
        self._wake = wake
        self.due: dict[str, float] = {}  # pod uid -> its earliest moment
        self._heap: list[tuple[float, int, str]] = []  # with moments that are no longer a pod's earliest
        self._latest: dict[str, float] = {}  # pod uid -> when its timer last ended, for SOONEST_S; the oldest first
        self._tickets = count()

    def __len__(self) -> int:
        return len(self.due)

    def retry(self, pod: PodInfo, seconds: float) -> None:
        """Have a pod that is being scheduled tried again after this many seconds, if it is in the queue then.

        A pod whose timer has just ended is tried again SOONEST_S seconds after that at the earliest. Raises ValueError
        for a number that is none, which would put the timers of all pods out of order.
        """
        if math.isnan(seconds):
            raise ValueError("expected in how many seconds to try the pod again, got nan")
        if len(self.due) < MAX_KEPT or pod.uid in self.due:
            ended = self._latest.get(pod.uid, -math.inf)
            self.set(pod.uid, max(self._clock.now() + seconds, ended + SOONEST_S))

    def retry_now(self, uid: str) -> None:
        """Have a waiting pod tried again before the next decision."""
        self.set(uid, self._clock.now())

    def set(self, uid: str, at: float) -> None:
        """Set the pod's timer to the time `at`, unless it has an earlier one: then a plugin can ask for it again."""
        known = self.due.get(uid)
        if known is not None and known <= at:
            return
        first = self.next_moment()
        self.due[uid] = at
        heapq.heappush(self._heap, (at, next(self._tickets), uid))
        if first is None or at < first:
            self._wake()

    def next_moment(self) -> float | None:
        """Return the earliest time of all timers, or None if there is none."""
        self._clean()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[str]:
        """Remove and return the pods whose time has come, the earliest first."""
        while self._latest and next(iter(self._latest.values())) + SOONEST_S <= now:
            del self._latest[next(iter(self._latest))]
        due = []
        while (first := self.next_moment()) is not None and first <= now:
            uid = heapq.heappop(self._heap)[2]
            del self.due[uid]
            self._latest.pop(uid, None)
            self._latest[uid] = now
            due.append(uid)
        return due

    def _clean(self) -> None:
        while self._heap and self.due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
