"""Whose turn it is: the queue with shares from which the next job is taken, level by level from the top of the tree.

Every job that is taken counts at once, as if it was placed, so that the next turn may be another queue's. When all
turns of a round are taken, they count no more. Between rounds it is remembered how queues compare, and only those whose
job or use has changed are looked at again. A kernel keeps what they use and compares them (`_fast/turn_order.pyx`); it
also says whether queues take jobs that are to be placed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from typing import Protocol

from kscheduler._fast import TurnOrder
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.queue_order import compare_unranked, terms_of
from kscheduler.quotas.queue_tree import QueueTree
from kscheduler.quotas.queues import Amounts, Queue, Share

Vector = tuple[int, ...]  # an amount of each resource that queues divide

_Charge = tuple[Demand, bool, int, Vector]  # a demand, does its queue take pods?, the queue's index, what it asks for

MOST_VECTORS = 4_096  # of amounts that are remembered


class DividedTree(Protocol):
    """Queues with fair shares, and what has changed since `Turns` looked at them last; it empties that."""

    epoch: int  # grows whenever fair shares or the tree have changed
    touched: set[str]  # names of queues whose use has changed
    newly_placed: dict[int, tuple[Demand, int]]  # id of a demand -> it, and how many pods are placed that waited

    @property
    def tree(self) -> QueueTree: ...

    @property
    def leaves(self) -> frozenset[str]: ...

    @property
    def total(self) -> Amounts: ...

    def refresh(self) -> None: ...


class Turns:
    """The turns of queues that have jobs. A round is: `begin`, any number of `take`, or of `take_many`, `end`.

    Between `begin` and `end` nothing else may change. A `ShareQueues` has one such object.
    """

    def __init__(self, queues: DividedTree) -> None:
        self._queues = queues
        self._epoch = -1  # of the queues, for which all below was computed
        self._knows_jobs = False  # they were stated since then
        self._order = TurnOrder((), (), (), (), 0)
        self._names: list[str] = []  # by the index of a queue in the order
        self._indexes: dict[str, int] = {}  # name -> index
        self._leaves: dict[str, int] = {}  # the same for queues that take pods
        self._paths: dict[str, list[int]] = {}  # name of a queue -> its index, and those of the queues above it
        self._resources: dict[str, int] = {}  # what queues divide -> place in vectors
        self._shares: list[list[tuple[int, Share]]] = []  # by the index of a queue: place of a resource, its share
        # id of amounts -> these, which keeps the id from meaning others, and their vector.
        self._vectors: dict[int, tuple[Amounts, Vector]] = {}
        self._charges: dict[int, _Charge] = {}  # by the id of a demand, which is in it for the same reason

    # --- a round ---

    def begin(self, jobs: Mapping[str, Amounts], changed: Iterable[str] | None = None) -> str | None:
        """State the next jobs of all queues that have any, by the names of queues that take pods.

        `changed`: the queues whose next job is not what it was at the end of the last round; None: any may. Returns the
        name of the queue whose turn it is; None if none has a job.
        """
        self._catch_up()
        order, indexes = self._order, self._indexes
        if not self._knows_jobs:
            self._knows_jobs, changed = True, jobs
        for name in indexes if changed is None else changed:
            index = indexes.get(name)
            if index is not None:
                job = jobs.get(name)
                order.set_job(index, None if job is None else self._vector(job))
        first = order.first()
        return None if first < 0 else self._names[first]

    def take(self, name: str, next_job: Amounts | None) -> str | None:
        """Take the job of a queue, and state the one after it; None if it has no further one.

        Returns the name of the queue whose turn it is then; None if none has a job.
        """
        vector: Vector | None = None
        if next_job is not None:
            known = self._vectors.get(id(next_job))
            vector = self._vector(next_job) if known is None else known[1]
        first = self._order.take(self._indexes[name], vector)
        return None if first < 0 else self._names[first]

    def take_many(self, most: int) -> tuple[list[str], str | None]:
        """Take up to `most` jobs in turn. Returns the names of their queues, in order.

        It stops after the last job of a queue that is known to ask for as much as those before it. The second value is
        that queue, whose next job is to be stated; None if there is none.
        """
        names = self._names
        taken, last = self._order.take_many(most)
        return [names[index] for index in taken], None if last < 0 else names[last]

    def set_next(self, name: str, job: Amounts, alike: int) -> None:
        """State the next job of a queue, and how many after it are known to ask for as much."""
        self._order.set_job(self._indexes[name], self._vector(job), alike)

    def end(self) -> None:
        """Count what was taken no more."""
        self._order.end()

    # --- room ---

    def admit(self, demands: Iterable[tuple[Demand, int]]) -> bool:
        """Return True if queues take so many pods of each demand together, outside of a round.

        False if one of the queues takes no pods at all. Pods in no queue need no room.
        """
        self._catch_up()
        order, charges = self._order, self._charges
        try:
            for demand, number in demands:
                if demand.queue == NO_QUEUE:
                    continue
                known = charges.get(id(demand)) or self._charge_of(demand)
                if known is None or not known[1] or not order.admit(known[2], known[3], demand.is_preemptible, number):
                    return False
            return True
        finally:
            order.end()

    # --- how queues compare ---

    def _catch_up(self) -> None:
        """Have the tree and what it uses as they are now."""
        queues = self._queues
        queues.refresh()
        if queues.epoch != self._epoch:
            self._start()
            return
        if queues.newly_placed:
            order, charges = self._order, self._charges
            for demand, times in queues.newly_placed.values():
                known = charges.get(id(demand)) or self._charge_of(demand)
                if known is not None and times:
                    order.charge(known[2], known[3], demand.is_preemptible, times)
            queues.newly_placed.clear()
        if queues.touched:
            tree = queues.tree.queues  # with all that is known by now
            for index in {index for name in queues.touched if name in tree for index in self._paths[name]}:
                self._set_used(index)
            queues.touched.clear()

    def _start(self) -> None:
        """Have the tree as it is now, in which no queue has a job yet."""
        queues = self._queues
        self._epoch, self._knows_jobs = queues.epoch, False
        tree = sorted(queues.tree.queues.values(), key=lambda queue: len(queue.path()))
        self._names = [queue.name for queue in tree]
        self._indexes = indexes = {name: index for index, name in enumerate(self._names)}
        self._leaves = {name: indexes[name] for name in queues.leaves}
        self._paths = {queue.name: [indexes[each.name] for each in queue.path()] for queue in tree}
        stated = {resource for queue in tree for resource in queue.shares}
        self._resources = places = {resource: place for place, resource in enumerate(sorted(stated))}
        self._shares = [[(places[resource], share) for resource, share in queue.shares.items()] for queue in tree]
        self._vectors.clear()
        self._charges.clear()
        self._order = TurnOrder(
            [-1 if queue.parent is None else indexes[queue.parent.name] for queue in tree],
            [queue.priority for queue in tree],
            _ranks_of_equals(queues.tree.queues.values(), tree),
            [terms_of(queue, queues.total, places) for queue in tree],
            len(places),
        )
        for index in range(len(tree)):
            self._set_used(index)
        queues.touched.clear()
        queues.newly_placed.clear()

    def _set_used(self, index: int) -> None:
        used = [0] * len(self._resources)
        kept = list(used)
        for place, share in self._shares[index]:
            used[place], kept[place] = share.allocated, share.allocated_non_preemptible
        self._order.set_used(index, tuple(used), tuple(kept))

    def _charge_of(self, demand: Demand) -> _Charge | None:
        """Return how the order counts a demand; None if its queue is not in the tree."""
        index = self._indexes.get(demand.queue)
        if index is None:
            return None
        if len(self._charges) >= MOST_VECTORS:
            self._charges.clear()
        known = self._charges[id(demand)] = demand, demand.queue in self._leaves, index, self._vector(demand.amounts)
        return known

    def _vector(self, amounts: Amounts) -> Vector:
        known = self._vectors.get(id(amounts))
        if known is not None:
            return known[1]
        vector = tuple(amounts.get(resource, 0) for resource in self._resources)
        if len(self._vectors) >= MOST_VECTORS:
            self._vectors.clear()
        self._vectors[id(amounts)] = amounts, vector
        return vector


def _ranks_of_equals(queues: Iterable[Queue], tree: Iterable[Queue]) -> list[int]:
    """Return a number for each queue of the tree, by which siblings compare that are equal else."""
    in_order = sorted(queues, key=cmp_to_key(compare_unranked))
    numbers = {queue: number for number, queue in enumerate(in_order)}
    return [numbers[queue] for queue in tree]
