"""Pods that may be scheduled now, in the order of the profile's QueueSort plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Final

from kscheduler.queue.pod_heap import PodLanes
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo

_ACTIVE: Final = Pool.ACTIVE  # which costs more for each pod

LessKey = Callable[[QueuedPodInfo], tuple[float, ...]]  # pods are popped in ascending order of this key


class ActiveQueue:
    __slots__ = ("_lanes", "_less_key", "_returns")

    def __init__(self, less_key: LessKey, tickets: Iterator[int]) -> None:
        self._lanes = PodLanes(tickets)
        self._less_key = less_key
        self._returns = count(-1, -1)

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._lanes)

    def first(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods in the order in which they would be popped, without removing them."""
        return [entry[-1] for entry in islice(self._lanes.entries_in_order(), most)]

    def push(self, qpi: QueuedPodInfo) -> None:
        qpi.pool = _ACTIVE
        if qpi.lane:
            self._lanes.push(qpi, self._less_key(qpi))
        else:
            self._lanes.plain.push(qpi, self._less_key(qpi))

    def put_back(self, qpi: QueuedPodInfo) -> None:
        """Return a popped pod to its place ahead of all pods with an equal key. Call it in reverse order of popping."""
        qpi.pool = Pool.ACTIVE
        self._lanes.push(qpi, self._less_key(qpi), next(self._returns))

    def pop(self, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        return self._lanes.pop(lane)

    def pop_many(self, most: int) -> list[QueuedPodInfo]:
        """Pop up to `most` pods that call no extender (the plain lane)."""
        return self._lanes.plain.pop_many(most)

    def lanes(self) -> list[Lane]:
        """Return the lanes of active pods that call extenders, in the queue order of their first pods.

        A lane has the pods that call the same extenders.
        """
        return self._lanes.in_order(self._less_key)

    def remove(self, qpi: QueuedPodInfo) -> None:
        self._lanes.remove(qpi)

    def is_misplaced(self, qpi: QueuedPodInfo) -> bool:
        """Take note of a pod's newer version.

        Returns True if it must be pushed again, because something beside its key and lane has changed.
        """
        return False

    def check(self) -> None:
        self._lanes.check()
        assert all(qpi.pool is Pool.ACTIVE for qpi in self), "a pod in the active heap says it is elsewhere"
