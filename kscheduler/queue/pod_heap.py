"""Heaps of queued pods. A removed pod's entry stays in its heap, and is skipped when it comes to the top.

An entry is valid while its pod has the entry's ticket. Heaps that share a counter never use a ticket twice, so that a
pod that has moved to another heap has no valid entry in the first. Pods with equal keys leave in the order they came.

Nearly all pods come in the order in which they leave, the oldest first. Those lie in a run beside the heap proper, to
which one is added, and from which one is taken, in a single comparison.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from kscheduler.queue.pod_info import PLAIN, Lane, QueuedPodInfo

SortKey = tuple[float, ...]  # all keys of a heap have equal lengths


Entry = tuple[Any, ...]  # (*sort key, ticket, pod): flat, since comparing nested tuples costs twice as much


class PodHeap:
    __slots__ = ("_entries", "_live", "_run", "_tickets")

    def __init__(self, tickets: Iterator[int]) -> None:
        # Tickets differ, so pods are never compared.
        self._run: deque[Entry] = deque()  # ascending
        self._entries: list[Entry] = []  # a heap of those that came when the run had smaller and larger ones
        self._tickets = tickets  # counts from 1
        self._live = 0  # entries that are valid

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pods in no particular order."""
        return (entry[-1] for entry in chain(self._run, self._entries) if entry[-1].ticket == entry[-2])

    def in_order(self) -> Iterator[Entry]:
        """Yield the entries of the pods in the order in which they would be popped; nothing may change meanwhile.

        The first n cost O(n log n), however many pods there are.
        """
        entries, run = self._entries, iter(self._run)
        lowest = [(entries[0], 0)] if entries else []  # entries of the heap, all above them were yielded
        first = next(run, None)
        while first is not None or lowest:
            if first is not None and (not lowest or first < lowest[0][0]):
                entry, first = first, next(run, None)
            else:
                entry, at = heapq.heappop(lowest)
                for below in range(2 * at + 1, min(2 * at + 3, len(entries))):
                    heapq.heappush(lowest, (entries[below], below))
            if entry[-1].ticket == entry[-2]:
                yield entry

    def push(self, qpi: QueuedPodInfo, key: SortKey, ticket: int = 0) -> bool:
        """Add a pod. Returns True if it is known to come after all others.

        `ticket`: a new number, negative to put the pod ahead of others with an equal key; 0: the next one.
        """
        qpi.ticket = ticket = ticket or next(self._tickets)
        entry, run = (*key, ticket, qpi), self._run
        self._live += 1
        if not run or run[-1] < entry:
            run.append(entry)
            return not self._entries
        elif entry < run[0]:
            run.appendleft(entry)
        else:
            heapq.heappush(self._entries, entry)
        return False

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the pod with the smallest key; None if the heap is empty."""
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, most: int) -> list[QueuedPodInfo]:
        """Remove and return up to `most` pods with the smallest keys, in order."""
        entries, run = self._entries, self._run
        popped: list[QueuedPodInfo] = []
        while len(popped) < most and (run or entries):
            is_in_run = not entries or (run and run[0] < entries[0])
            entry = run.popleft() if is_in_run else heapq.heappop(entries)
            qpi: QueuedPodInfo = entry[-1]
            if qpi.ticket == entry[-2]:
                qpi.ticket = 0
                popped.append(qpi)
        self._live -= len(popped)
        return popped

    def first(self) -> QueuedPodInfo | None:
        """Return the pod that `pop` would return, without removing it; None if the heap is empty."""
        entries, run = self._entries, self._run
        while entries or run:
            is_in_run = not entries or (run and run[0] < entries[0])
            entry = run[0] if is_in_run else entries[0]
            qpi: QueuedPodInfo = entry[-1]
            if qpi.ticket == entry[-2]:
                return qpi
            if is_in_run:
                run.popleft()
            else:
                heapq.heappop(entries)
        return None

    def run(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods in the order of popping, as far as that is known without looking for the next."""
        found: list[QueuedPodInfo] = []
        if not self._entries:
            for entry in islice(self._run, most):
                if entry[-1].ticket != entry[-2]:
                    break
                found.append(entry[-1])
        return found

    def advance(self) -> QueuedPodInfo | None:
        """Remove the pod that `first` returns, and return the one after it; None if that was the last one."""
        entries, run = self._entries, self._run
        if not entries and run and run[0][-1].ticket == run[0][-2]:  # as nearly always
            run.popleft()[-1].ticket = 0
            self._live -= 1
            return run[0][-1] if run and run[0][-1].ticket == run[0][-2] else self.first()
        is_found = False
        while run or entries:
            is_in_run = not entries or (run and run[0] < entries[0])
            entry = run[0] if is_in_run else entries[0]
            qpi: QueuedPodInfo = entry[-1]
            if qpi.ticket == entry[-2]:
                if is_found:
                    return qpi
                qpi.ticket = 0
                is_found = True
                self._live -= 1
            if is_in_run:
                run.popleft()
            else:
                heapq.heappop(entries)
        return None

    def remove(self, qpi: QueuedPodInfo) -> None:
        """Remove a pod that is in this heap."""
        qpi.ticket = 0
        self._live -= 1
        if len(self._run) + len(self._entries) > 2 * self._live + 64:
            self._compact()

    def _compact(self) -> None:
        """Drop invalid entries. Called when they outnumber the pods, so that a removal costs amortised O(log n)."""
        self._run = deque(entry for entry in self._run if entry[-1].ticket == entry[-2])
        self._entries = [entry for entry in self._entries if entry[-1].ticket == entry[-2]]
        heapq.heapify(self._entries)

    def check(self) -> None:
        live = list(self)
        assert len(live) == self._live, f"heap counts {self._live} pods and holds {len(live)}"
        assert len({id(qpi) for qpi in live}) == self._live, "a pod stands twice in one heap"
        run = list(self._run)
        assert run == sorted(run), "the run is not in order"


def pop_firsts(heaps: Iterable[PodHeap]) -> list[QueuedPodInfo]:
    """Remove and return the pod with the smallest key of each of these heaps, one after the other; none is empty.

    A heap may come several times. It is one function, since each pod would cost a call of another one.
    """
    popped: list[QueuedPodInfo] = []
    for heap in heaps:
        if not heap._entries:  # as nearly always
            entry = heap._run.popleft()
            qpi: QueuedPodInfo = entry[-1]
            if qpi.ticket == entry[-2]:
                qpi.ticket = 0
                heap._live -= 1
                popped.append(qpi)
                continue
        first = heap.pop()
        assert first is not None, "the heap is empty"
        popped.append(first)
    return popped


class PodLanes:
    """A heap for each lane, i.e. for the pods that call the same extenders; most pods call none (the plain lane).

    A pod's lane must not change while the pod is in its heap.
    """

    __slots__ = ("_others", "_tickets", "plain")

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self.plain = PodHeap(tickets)
        self._others: dict[Lane, PodHeap] = {}

    def __len__(self) -> int:
        return len(self.plain) + sum(map(len, self._others.values())) if self._others else len(self.plain)

    def __bool__(self) -> bool:
        return bool(self.plain) or bool(self._others)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(self.plain, *self._others.values())

    def push(self, qpi: QueuedPodInfo, key: SortKey, ticket: int = 0) -> None:
        heap = self._heap(qpi.lane)
        if heap is None:
            heap = self._others[qpi.lane] = PodHeap(self._tickets)
        heap.push(qpi, key, ticket)

    def pop(self, lane: Lane) -> QueuedPodInfo | None:
        if not lane:
            return self.plain.pop()
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

    def entries_in_order(self) -> Iterator[Entry]:
        """Yield the entries of all lanes' pods in ascending order; nothing may change meanwhile."""
        if not self._others:
            return self.plain.in_order()
        return heapq.merge(self.plain.in_order(), *(heap.in_order() for heap in self._others.values()))

    def in_order(self, key: Callable[[QueuedPodInfo], SortKey]) -> list[Lane]:
        """Return the non-empty lanes of pods that call extenders, in the order of their first pods by `key`."""
        firsts = [qpi for qpi in self.firsts() if qpi.lane != PLAIN]
        return [qpi.lane for qpi in sorted(firsts, key=lambda qpi: (*key(qpi), qpi.ticket))]

    def others(self) -> list[Lane]:
        """Return the non-empty lanes of pods that call extenders, in no particular order."""
        return list(self._others)

    def firsts(self) -> Iterator[QueuedPodInfo]:
        """Yield the first pod of each lane, including the plain lane of pods that call no extender."""
        for lane in (PLAIN, *self._others):
            first = self.first(lane)
            if first is not None:
                yield first

    def _heap(self, lane: Lane) -> PodHeap | None:
        return self.plain if lane == PLAIN else self._others.get(lane)

    def _drop_if_empty(self, lane: Lane) -> None:
        heap = self._others.get(lane) if lane else None
        if heap is not None and not heap:
            del self._others[lane]

    def check(self) -> None:
        for lane, heap in ((PLAIN, self.plain), *self._others.items()):
            heap.check()
            assert all(qpi.lane == lane for qpi in heap), f"a pod in lane {lane} says it is in another one"
            assert lane == PLAIN or heap, f"lane {lane} is kept for nobody"
