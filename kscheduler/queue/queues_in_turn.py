"""Active pods of queues with shares: the queues take turns, and within each the profile's order applies.

Each pod that is popped counts as placed for the turns after it, as far as they belong to one call; the caller decides
the pods in that order, and puts back those that it does not come to. Pods that are in no queue that takes pods come
where the profile's order puts them beside the first pod of the queue whose turn it is. So do pods that call extenders,
which are popped by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain, count, islice

from kscheduler.queue.active_queue import ActiveQueue, LessKey
from kscheduler.queue.pod_heap import Entry, PodHeap
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.turns import turns

DemandOf = Callable[[QueuedPodInfo], Demand]


class QueuesInTurn(ActiveQueue):
    """An active queue with one heap for each queue that its pods name."""

    __slots__ = ("_demand_of", "_heaps", "_live", "_names", "_queues", "_returns_here", "_tickets")

    def __init__(self, less_key: LessKey, tickets: Iterator[int], queues: ShareQueues, demand_of: DemandOf) -> None:
        super().__init__(less_key, tickets)
        self._queues = queues
        self._demand_of = demand_of
        self._tickets = tickets
        self._returns_here = count(-1, -1)
        self._heaps: dict[str, PodHeap] = {}  # queue -> its pods that call no extender; none is empty
        self._names: dict[str, str] = {}  # uid of such a pod -> the queue in whose heap it is
        self._live = 0

    def __len__(self) -> int:
        return self._live + super().__len__()

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(*self._heaps.values(), super().__iter__())

    def push(self, qpi: QueuedPodInfo) -> None:
        if qpi.lane:
            super().push(qpi)
        else:
            self._push(qpi, 0)

    def put_back(self, qpi: QueuedPodInfo) -> None:
        if qpi.lane:
            super().put_back(qpi)
        else:
            self._push(qpi, next(self._returns_here))

    def _push(self, qpi: QueuedPodInfo, ticket: int) -> None:
        qpi.pool = Pool.ACTIVE
        name = self._demand_of(qpi).queue
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = PodHeap(self._tickets)
        heap.push(qpi, self._less_key(qpi), ticket)
        self._names[qpi.uid] = name
        self._live += 1

    def pop(self, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        if lane:
            return super().pop(lane)
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, most: int) -> list[QueuedPodInfo]:
        if not self._heaps:
            return []
        with closing(self._in_turn({name: heap.first for name, heap in self._heaps.items()}, self._drop)) as order:
            return list(islice(order, most))

    def first(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods: those in queues in the order in which they would be popped, then others."""
        orders = {name: _Order(heap.in_order()) for name, heap in self._heaps.items()}
        sources = {name: order.first for name, order in orders.items()}
        with closing(self._in_turn(sources, lambda name, qpi: orders[name].advance())) as order:
            found = list(islice(order, most))
        return found + super().first(most - len(found))

    def _drop(self, name: str, qpi: QueuedPodInfo) -> None:
        """Remove the first pod of a heap."""
        heap = self._heaps[name]
        heap.pop()
        del self._names[qpi.uid]
        self._live -= 1
        if not heap:
            del self._heaps[name]

    def _in_turn(
        self,
        firsts: dict[str, Callable[[], QueuedPodInfo | None]],
        drop: Callable[[str, QueuedPodInfo], None],
    ) -> Generator[QueuedPodInfo, None, None]:
        """Yield pods in the order of turns. `firsts`: queue -> its first pod; `drop` lets the next one be the first."""
        leaves, less_key, demand_of = self._queues.leaves, self._less_key, self._demand_of
        heads = {name: qpi for name, first in firsts.items() if (qpi := first()) is not None}
        demands = {name: demand_of(qpi) for name, qpi in heads.items()}
        outside = {name for name in heads if name not in leaves}
        jobs = {name: demand.amounts for name, demand in demands.items() if name in leaves}
        with turns(self._queues, jobs) as order:
            while heads:
                name = order.next()
                for other in outside:
                    if name is None or (less_key(heads[other]), heads[other].ticket) < (
                        less_key(heads[name]),
                        heads[name].ticket,
                    ):
                        name = other
                if name is None:
                    return
                qpi, demand = heads.pop(name), demands.pop(name)
                drop(name, qpi)
                following = firsts[name]()
                if following is not None:
                    heads[name], demands[name] = following, demand_of(following)
                if name not in outside:
                    order.take(name, demand, None if following is None else demands[name].amounts)
                elif following is None:
                    outside.discard(name)
                yield qpi

    def remove(self, qpi: QueuedPodInfo) -> None:
        if qpi.lane:
            super().remove(qpi)
            return
        name = self._names.pop(qpi.uid)
        heap = self._heaps[name]
        heap.remove(qpi)
        self._live -= 1
        if not heap:
            del self._heaps[name]

    def is_misplaced(self, qpi: QueuedPodInfo) -> bool:
        return not qpi.lane and self._names.get(qpi.uid) != self._demand_of(qpi).queue

    def check(self) -> None:
        super().check()
        for name, heap in self._heaps.items():
            heap.check()
            assert heap, f"the heap of queue {name} is kept for nobody"
            assert all(self._names[qpi.uid] == name for qpi in heap), f"a pod of queue {name} is said to be elsewhere"
        assert sum(map(len, self._heaps.values())) == self._live == len(self._names), "pods are counted wrongly"


class _Order:
    """The pods of a heap in order, one at a time."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._head: QueuedPodInfo | None = None
        self.advance()

    def first(self) -> QueuedPodInfo | None:
        return self._head

    def advance(self) -> None:
        entry = next(self._entries, None)
        self._head = None if entry is None else entry[-1]
