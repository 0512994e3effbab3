"""Active pods of queues with shares: the queues take turns, and within each the profile's order applies.

Each pod that is popped counts as placed for the turns after it, as far as they belong to one call; the caller decides
the pods in that order, and puts back those that it does not come to. Pods that are in no queue that takes pods come
where the profile's order puts them beside the first pod of the queue whose turn it is. So do pods that call extenders,
which are popped by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, count

from kscheduler.queue.active_queue import ActiveQueue, LessKey
from kscheduler.queue.pod_heap import PodHeap, pop_firsts
from kscheduler.queue.pod_info import PLAIN, Lane, Pool, QueuedPodInfo
from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.queues import Amounts
from kscheduler.quotas.share_queues import ShareQueues

DemandOf = Callable[[QueuedPodInfo], Demand]


MOST_AHEAD = 64  # pods of a queue that are looked at ahead
OUTSIDE = ""  # the heap of pods in no queue that takes pods


class QueuesInTurn(ActiveQueue):
    """An active queue with one heap for each queue that takes pods, and one for the other pods.

    The first pod of each heap is remembered from call to call, with what it asks for: only heaps that have changed are
    looked at again.
    """

    __slots__ = (
        "_amounts",
        "_changed",
        "_demand_of",
        "_gangs",
        "_heads",
        "_heaps",
        "_jobs",
        "_leaves",
        "_live",
        "_queues",
        "_returns_here",
        "_tickets",
        "_turns",
        "_unseen",
    )

    def __init__(self, less_key: LessKey, tickets: Iterator[int], queues: ShareQueues, demand_of: DemandOf) -> None:
        super().__init__(less_key, tickets)
        self._queues = queues
        self._turns = queues.turns
        self._demand_of = demand_of
        self._tickets = tickets
        self._returns_here = count(-1, -1)
        self._leaves = queues.leaves  # the queues that take pods, for which the heaps were made
        self._heaps: dict[str, PodHeap] = {}  # queue -> its pods that call no extender; none is empty
        self._live = 0
        # Queue -> the first pod of its heap, but for those in `_changed`, and those in `_unseen`: from these pods were
        # taken since, and they have others that ask for as much.
        self._heads: dict[str, QueuedPodInfo] = {}
        self._unseen: set[str] = set()
        # Queue -> what each pod of its heap asks for, if that is one object; None if they differ. Also of former heaps.
        self._amounts: dict[str, Amounts | None] = {}
        self._jobs: dict[str, Amounts] = {}  # queue that takes pods -> what its first pod asks for
        self._gangs: set[str] = set()  # queues whose first pod stands for others, so that its demand may change
        self._changed: set[str] = set()  # queues whose first pod, or what it asks for, may be another one

    def __len__(self) -> int:
        return self._live + super().__len__()

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain(*self._heaps.values(), super().__iter__())

    # --- pods come and go ---

    def push(self, qpi: QueuedPodInfo, ticket: int = 0) -> None:
        """Add a pod. `ticket`: as in `PodHeap.push`."""
        if qpi.lane:
            super().push(qpi)
            return
        if not self._live:
            self._follow()
        qpi.pool = Pool.ACTIVE
        qpi.demand = demand = self._demand_of(qpi)
        name = demand.queue if demand.queue in self._leaves else OUTSIDE
        heap = self._heaps.get(name)
        is_first = heap is None
        amounts = demand.amounts if type(qpi) is QueuedPodInfo else None
        if heap is None:
            heap = self._heaps[name] = PodHeap(self._tickets)
            self._amounts[name] = amounts
        elif self._amounts[name] is not amounts:
            self._amounts[name] = None
        if not heap.push(qpi, self._less_key(qpi), ticket) or is_first:
            self._changed.add(name)
        self._live += 1

    def put_back(self, qpi: QueuedPodInfo) -> None:
        if qpi.lane:
            super().put_back(qpi)
        else:
            self.push(qpi, next(self._returns_here))

    def _place_of(self, demand: Demand) -> str:
        return demand.queue if demand.queue in self._leaves else OUTSIDE

    def _follow(self) -> None:
        """Build the heaps again if other queues take pods than before; each pod keeps its place among the others."""
        leaves = self._queues.leaves
        if leaves is self._leaves:
            return
        is_changed, self._leaves = leaves != self._leaves, leaves
        if is_changed:
            pods = [qpi for heap in self._heaps.values() for qpi in heap]
            self._heaps, self._live = {}, 0
            self._heads, self._jobs = {}, {}
            self._gangs.clear()
            self._unseen.clear()
            self._amounts.clear()
            self._changed.clear()
            for qpi in pods:
                self.push(qpi, qpi.ticket)

    def remove(self, qpi: QueuedPodInfo) -> None:
        if qpi.lane:
            super().remove(qpi)
            return
        name = self._place_of(_known(qpi))
        heap = self._heaps[name]
        heap.remove(qpi)
        self._changed.add(name)
        self._live -= 1
        if not heap:
            del self._heaps[name]

    def is_misplaced(self, qpi: QueuedPodInfo) -> bool:
        if qpi.lane:
            return False
        known, demand = qpi.demand, self._demand_of(qpi)
        if known is None or self._place_of(known) != self._place_of(demand):
            return True
        if demand != known:
            qpi.demand = demand
            self._amounts[self._place_of(demand)] = None
            self._changed.add(self._place_of(demand))
        return False

    # --- their order ---

    def pop(self, lane: Lane = PLAIN) -> QueuedPodInfo | None:
        if lane:
            return super().pop(lane)
        popped = self.pop_many(1)
        return popped[0] if popped else None

    def pop_many(self, most: int) -> list[QueuedPodInfo]:
        self._follow()
        if not self._heaps:
            return []
        turn = self._turns.begin(self._jobs, self._look_again())
        try:
            if OUTSIDE in self._heads:
                self._see()
                return self._pop_one_by_one(most, turn)
            return self._pop_in_turn(most)
        finally:
            self._turns.end()

    def _pop_in_turn(self, most: int) -> list[QueuedPodInfo]:
        """Pop pods of queues only: for those after which equal ones are known to come, the turns are taken together."""
        turns, heaps, popped = self._turns, self._heaps, list[QueuedPodInfo]()
        while len(popped) < most:
            names, last = turns.take_many(most - len(popped))
            if not names:
                break
            self._unseen.update(names)
            # 1. Pods after which others were found by `_count_equal`.
            if last is not None:
                names.pop()
            taken = pop_firsts([heaps[name] for name in names])
            # 2. The last one of a queue of which that is known. What its next pod asks for is not.
            if last is not None:
                first = heaps[last].first()
                assert first is not None, f"it is the turn of queue {last}, which has no pod"
                taken.append(first)
                head = heaps[last].advance()
                self._set_head(last, head)
                if head is None:
                    del heaps[last]
                else:
                    turns.set_next(last, self._jobs[last], self._count_equal(last))
            popped += taken
            self._live -= len(taken)
        return popped

    def _count_equal(self, name: str) -> int:
        """Return how many pods come after the first one of a queue that ask for as much, as far as that is known."""
        job, number = self._jobs[name], -1
        if self._amounts[name] is job:
            return len(self._heaps[name]) - 1
        for qpi in self._heaps[name].run(MOST_AHEAD):
            demand = qpi.demand
            if type(qpi) is not QueuedPodInfo or demand is None or demand.amounts is not job:
                break
            number += 1
        return max(number, 0)

    def _see(self) -> None:
        """Look at the first pods of the heaps from which pods were taken since."""
        for name in self._unseen & self._heads.keys():
            head = self._heaps[name].first()
            assert head is not None, f"an empty heap is kept for queue {name}"
            self._heads[name] = head
        self._unseen.clear()

    def _pop_one_by_one(self, most: int, turn: str | None) -> list[QueuedPodInfo]:
        """Pop pods of queues, and pods of none. `turn`: the queue whose turn it is."""
        turns, popped = self._turns, list[QueuedPodInfo]()
        heads, jobs, heaps = self._heads, self._jobs, self._heaps
        while heads and len(popped) < most:
            name = self._next(heads, turn)
            popped.append(heads[name])
            self._live -= 1
            head = heaps[name].advance()
            if head is None:
                del heaps[name]
            self._set_head(name, head)
            if name != OUTSIDE:
                turn = turns.take(name, jobs.get(name))
        return popped

    def _look_again(self) -> set[str]:
        """Look at the first pods of heaps that may have another one. Returns the queues whose jobs may have changed."""
        changed = self._changed | self._gangs
        for name in changed:
            heap = self._heaps.get(name)
            self._set_head(name, None if heap is None else heap.first())
        self._changed.clear()
        return changed

    def _set_head(self, name: str, head: QueuedPodInfo | None) -> None:
        self._gangs.discard(name)
        self._unseen.discard(name)
        if head is None:
            self._heads.pop(name, None)
            self._jobs.pop(name, None)
            return
        self._heads[name] = head
        if name != OUTSIDE:
            self._jobs[name] = self._demand_at(head).amounts
            if type(head) is not QueuedPodInfo:
                self._gangs.add(name)

    def _demand_at(self, head: QueuedPodInfo) -> Demand:
        """Return what a pod asks for now. A gang may ask for more than when it came."""
        return _known(head) if type(head) is QueuedPodInfo else self._demand_of(head)

    def first(self, most: int) -> list[QueuedPodInfo]:
        """Return up to `most` pods: those in queues in the order in which they would be popped, then others."""
        self._follow()
        orders = {name: (entry[-1] for entry in heap.in_order()) for name, heap in self._heaps.items()}
        heads = {name: next(order) for name, order in orders.items()}
        jobs = {name: self._demand_at(head).amounts for name, head in heads.items() if name != OUTSIDE}
        found: list[QueuedPodInfo] = []
        turn = self._turns.begin(jobs)
        try:
            while heads and len(found) < most:
                name = self._next(heads, turn)
                found.append(heads.pop(name))
                following = next(orders[name], None)
                if following is not None:
                    heads[name] = following
                if name != OUTSIDE:
                    job = None if following is None else self._demand_at(following).amounts
                    turn = self._turns.take(name, job)
        finally:
            self._turns.end()
            self._turns.begin(self._jobs)
        return found + super().first(most - len(found))

    def _next(self, heads: Mapping[str, QueuedPodInfo], turn: str | None) -> str:
        """Return the queue whose turn it is, or OUTSIDE. One of them has a pod."""
        if turn is None or (OUTSIDE in heads and self._is_before(heads[OUTSIDE], heads[turn])):
            return OUTSIDE
        return turn

    def _is_before(self, one: QueuedPodInfo, other: QueuedPodInfo) -> bool:
        """Return True if the profile's order puts a pod before another one."""
        return (self._less_key(one), one.ticket) < (self._less_key(other), other.ticket)

    def check(self) -> None:
        super().check()
        for name, heap in self._heaps.items():
            heap.check()
            assert heap, f"the heap of queue {name} is kept for nobody"
            same = self._amounts[name]
            assert same is None or all(_known(qpi).amounts is same for qpi in heap), f"pods of queue {name} differ"
            for qpi in heap:
                assert self._place_of(_known(qpi)) == name, f"a pod of queue {name} is counted elsewhere"
            if name not in self._changed and name not in self._unseen:
                assert self._heads.get(name) is heap.first(), f"another pod of queue {name} is taken for the first"
        assert self._heads.keys() - self._changed <= self._heaps.keys(), "an empty queue has a first pod"
        assert sum(map(len, self._heaps.values())) == self._live, "pods are counted wrongly"


def _known(qpi: QueuedPodInfo) -> Demand:
    """Return what a pod asked for when it came, or was updated."""
    demand = qpi.demand
    assert demand is not None, f"pod {qpi.key} is in no heap"
    return demand
