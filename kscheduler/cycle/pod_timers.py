"""Pods that plugins want tried again at a certain moment, whatever their backoff. Callers pass the current time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

MAX_KEPT = 65_536  # pods; what is asked for beyond that is left to the queue, which lets no pod wait forever


class PodTimers:
    """One moment for each pod. `wake` is called when a new moment comes before all others, for a loop that sleeps."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self.due: dict[str, float] = {}  # pod uid -> its earliest moment
        self._heap: list[tuple[float, int, str]] = []  # with moments that are no longer a pod's earliest
        self._tickets = count()

    def __len__(self) -> int:
        return len(self.due)

    def set(self, uid: str, at: float) -> None:
        """Set the pod's moment, unless an earlier one is set: a plugin that wants a later one asks again then."""
        known = self.due.get(uid)
        if (known is not None and known <= at) or (known is None and len(self.due) >= MAX_KEPT):
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
