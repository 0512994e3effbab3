"""Pods that may be scheduled now, in the order of the profile's QueueSort plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kscheduler.queue.pod_heap import PodHeap
from kscheduler.queue.pod_info import Pool, QueuedPodInfo

LessKey = Callable[[QueuedPodInfo], tuple[float, ...]]  # pods are popped in ascending order of this key


class ActiveQueue:
    __slots__ = ("_heap", "_less_key")

    def __init__(self, less_key: LessKey, tickets: Iterator[int]) -> None:
        self._heap = PodHeap(tickets)
        self._less_key = less_key

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._heap)

    def push(self, qpi: QueuedPodInfo) -> None:
        qpi.pool = Pool.ACTIVE
        self._heap.push(qpi, self._less_key(qpi))

    def pop(self) -> QueuedPodInfo | None:
        return self._heap.pop()

    def remove(self, qpi: QueuedPodInfo) -> None:
        self._heap.remove(qpi)

    def check(self) -> None:
        self._heap.check()
        assert all(qpi.pool is Pool.ACTIVE for qpi in self), "a pod in the active heap says it is elsewhere"
