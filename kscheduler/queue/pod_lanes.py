"""One heap of queued pods for each lane. Nearly all pods are in the plain lane, which is therefore always at hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kscheduler.queue.pod_heap import PodHeap, SortKey
from kscheduler.queue.pod_info import PLAIN, Lane, QueuedPodInfo


class PodLanes:
    """A pod must not change its lane while it is here."""

    __slots__ = ("_others", "_plain", "_tickets")

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self._plain = PodHeap(tickets)
        self._others: dict[Lane, PodHeap] = {}

    def __len__(self) -> int:
        return len(self._plain) + sum(map(len, self._others.values())) if self._others else len(self._plain)

    def __bool__(self) -> bool:
        return bool(self._plain) or bool(self._others)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self._plain, *self._others.values())

    def push(self, qpi: QueuedPodInfo, key: SortKey, ticket: int = 0) -> None:
        heap = self._plain if qpi.lane == PLAIN else self._others.get(qpi.lane)
        if heap is None:
            heap = self._others[qpi.lane] = PodHeap(self._tickets)
        heap.push(qpi, key, ticket)

    def pop(self, lane: Lane) -> QueuedPodInfo | None:
        if not lane:
            return self._plain.pop()
        heap = self._others.get(lane)
        qpi = None if heap is None else heap.pop()
        self._drop_if_empty(lane)
        return qpi

    def first(self, lane: Lane) -> QueuedPodInfo | None:
        heap = self._heap(lane)
        return None if heap is None else heap.first()

    def remove(self, qpi: QueuedPodInfo) -> None:
        heap = self._heap(qpi.lane)
        assert heap is not None, f"pod {qpi.key} is not in the lane it names"
        heap.remove(qpi)
        self._drop_if_empty(qpi.lane)

    def others(self) -> list[Lane]:
        """The lanes but the plain one, in no particular order. None of them is empty."""
        return list(self._others)

    def firsts(self) -> Iterator[QueuedPodInfo]:
        """The first pod of each lane, the plain one included."""
        for lane in (PLAIN, *self._others):
            first = self.first(lane)
            if first is not None:
                yield first

    def _heap(self, lane: Lane) -> PodHeap | None:
        return self._plain if lane == PLAIN else self._others.get(lane)

    def _drop_if_empty(self, lane: Lane) -> None:
        heap = self._others.get(lane) if lane else None
        if heap is not None and not heap:
            del self._others[lane]

    def check(self) -> None:
        for lane, heap in ((PLAIN, self._plain), *self._others.items()):
            heap.check()
            assert all(qpi.lane == lane for qpi in heap), f"a pod in lane {lane} says it is in another one"
            assert lane == PLAIN or heap, f"lane {lane} is kept for nobody"
