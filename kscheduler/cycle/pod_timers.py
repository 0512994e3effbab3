"""Pods that are to be tried again at a certain moment, whatever their backoff, because a plugin asked for it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from kscheduler.clock import Clock
from kscheduler.snapshot.pod_info import PodInfo

MAX_KEPT = 65_536  # pods that wait for a later moment; the queue tries others in its own time


class PodTimers:
    """One moment for each pod. `wake` is called when a new moment comes before all others, for a loop that sleeps."""

    def __init__(self, clock: Clock, wake: Callable[[], object]) -> None:
        self._clock = clock
        self._wake = wake
        self.due: dict[str, float] = {}  # pod uid -> its earliest moment
        self._heap: list[tuple[float, int, str]] = []  # with moments that are no longer a pod's earliest
        self._tickets = count()

    def __len__(self) -> int:
        return len(self.due)

    def retry(self, pod: PodInfo, seconds: float) -> None:
        """Try a pod in flight again after so many seconds, if it is in the queue then."""
        if len(self.due) < MAX_KEPT or pod.uid in self.due:
            self.set(pod.uid, self._clock.now() + seconds)

    def retry_now(self, uid: str) -> None:
        """Try a waiting pod again before the next decision."""
        self.set(uid, self._clock.now())

    def set(self, uid: str, at: float) -> None:
        """Set the pod's moment, unless an earlier one is set: a plugin that wants a later one asks again then."""
        known = self.due.get(uid)
        if known is not None and known <= at:
            return
        first = self.next_moment()
        self.due[uid] = at
        heapq.heappush(self._heap, (at, next(self._tickets), uid))
        if first is None or at < first:
            self._wake()

    def next_moment(self) -> float | None:
        """Return the earliest moment of all pods, or None if none is set."""
        self._clean()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[str]:
        """Remove and return the pods whose moment has come, the earliest first."""
        due = []
        while (first := self.next_moment()) is not None and first <= now:
            uid = heapq.heappop(self._heap)[2]
            del self.due[uid]
            due.append(uid)
        return due

    def _clean(self) -> None:
        while self._heap and self.due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
