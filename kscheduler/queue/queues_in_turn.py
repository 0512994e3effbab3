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
from kscheduler.quotas.turns import Turns

DemandOf = Callable[[QueuedPodInfo], Demand]


OUTSIDE = ""  # the heap of pods in no queue that takes pods


class QueuesInTurn(ActiveQueue):
    """An active queue with one heap for each queue that takes pods, and one for the other pods."""

    __slots__ = ("_demand_of", "_heaps", "_leaves", "_live", "_names", "_queues", "_returns_here", "_tickets", "_turns")

    def __init__(self, less_key: LessKey, tickets: Iterator[int], queues: ShareQueues, demand_of: DemandOf) -> None:
        super().__init__(less_key, tickets)
        self._queues = queues
        self._turns = Turns(queues)
        self._demand_of = demand_of
        self._tickets = tickets
        self._returns_here = count(-1, -1)
        self._leaves = queues.leaves  # the queues that take pods, for which the heaps were made
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
        self._follow()
        qpi.pool = Pool.ACTIVE
        name = self._place_of(qpi)
        heap = self._heaps.get(name)
        if heap is None:
            heap = self._heaps[name] = PodHeap(self._tickets)
        heap.push(qpi, self._less_key(qpi), ticket)
        self._names[qpi.uid] = name
        self._live += 1

    def _place_of(self, qpi: QueuedPodInfo) -> str:
        name = self._demand_of(qpi).queue
        return name if name in self._leaves else OUTSIDE

    def _follow(self) -> None:
        """Make the heaps anew if other queues take pods than before; each pod keeps its place among the others."""
        leaves = self._queues.leaves
        if leaves is self._leaves:
            return
        is_changed, self._leaves = leaves != self._leaves, leaves
        if is_changed:
            pods = [qpi for heap in self._heaps.values() for qpi in heap]
            self._heaps, self._names, self._live = {}, {}, 0
            for qpi in pods:
                self._push(qpi, qpi.ticket)

    def pop(self, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        if lane:
            return super().pop(lane)
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, most: int) -> list[QueuedPodInfo]:
        self._follow()
        if not self._heaps:
            return []
        with closing(self._in_turn({name: heap.first for name, heap in self._heaps.items()}, self._drop)) as order:
            return list(islice(order, most))

    def first(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods: those in queues in the order in which they would be popped, then others."""
        self._follow()
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
        demand_of, order = self._demand_of, self._turns
        heads = {name: qpi for name, first in firsts.items() if (qpi := first()) is not None}
        demands = {name: demand_of(qpi) for name, qpi in heads.items() if name != OUTSIDE}
        order.begin({name: demand.amounts for name, demand in demands.items()})
        try:
            while heads:
                name = order.next()
                if name is None or (OUTSIDE in heads and self._is_before(heads[OUTSIDE], heads[name])):
                    name = OUTSIDE
                qpi = heads.pop(name)
                drop(name, qpi)
                following = firsts[name]()
                if following is not None:
                    heads[name] = following
                if name != OUTSIDE:
                    demand = demands.pop(name)
                    if following is None:
                        order.take(name, demand, None)
                    else:
                        demands[name] = demand_of(following)
                        order.take(name, demand, demands[name].amounts)
                yield qpi
        finally:
            order.end()

    def _is_before(self, one: QueuedPodInfo, other: QueuedPodInfo) -> bool:
        """Return True if the profile's order puts a pod before another one."""
        return (self._less_key(one), one.ticket) < (self._less_key(other), other.ticket)

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
        return not qpi.lane and self._names.get(qpi.uid) != self._place_of(qpi)

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
