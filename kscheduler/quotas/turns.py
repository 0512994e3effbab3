"""Whose turn it is: the queue with shares from which the next job is taken, level by level from the top of the tree.

Every job that is taken counts at once, as if it was placed, so that the next turn may be another queue's. When all
turns of a round are taken, the tree is as it was before. Between rounds it is remembered how queues compare, and only
those whose job or use has changed are looked at again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import count
from typing import Any

from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.queue_order import Terms, compare_unranked, rank_by, terms_of
from kscheduler.quotas.queues import Amounts, Queue
from kscheduler.quotas.share_queues import NOTHING, ShareQueues, count_use


@dataclass(slots=True)
class _Branch:
    """A queue from which, or from below which, a job may be taken."""

    ticket: int  # of its valid entry in the heap of its parent
    leaf: str  # the name of the queue that has the job
    job: Amounts
    used: list[int]  # of each resource, when the entry was made


class Turns:
    """The turns of queues that have jobs. A round is: `begin`, any number of `next` and `take`, `end`.

    Between `begin` and `end` nothing else may change. Only one such object may be used for a `ShareQueues`.
    """

    def __init__(self, queues: ShareQueues) -> None:
        self._queues = queues
        self._epoch = -1  # of the queues, for which all below was computed
        self._terms: dict[Queue, Terms] = {}
        self._order: dict[Queue, int] = {}  # among siblings of equal rank
        self._depths: dict[Queue, int] = {}
        self._jobs: dict[str, Amounts] = {}  # queue -> its next job
        self._branches: dict[Queue, _Branch] = {}
        # Parent -> (*rank, order, ticket, queue) of the queues below it, as a heap; entries without their branch's
        # ticket are not valid any more.
        self._heaps: dict[Queue | None, list[tuple[Any, ...]]] = {}
        self._tickets = count()
        self._taken: list[tuple[Queue, Demand]] = []

    # --- a round ---

    def begin(self, jobs: Mapping[str, Amounts], changed: Iterable[str] | None = None) -> None:
        """State the next jobs of all queues that have any, by the names of queues that take pods.

        `changed`: the queues whose next job is not what it was at the end of the last round; None: any may.
        """
        queues = self._queues
        queues.refresh()
        if queues.epoch != self._epoch:
            self._start(jobs)
            return
        if changed is None:
            changed = [*jobs, *self._jobs]
        for name in changed:
            job = jobs.get(name)
            if job is None:
                self._jobs.pop(name, None)
            else:
                self._jobs[name] = job
        tree = queues.tree.queues
        again = queues.touched.union(changed)
        queues.touched.clear()
        if again:
            self._update([tree[name] for name in again if name in tree])

    def next(self) -> str | None:
        """Return the name of the queue whose turn it is; None if none has a job."""
        first = self._first(None)
        return None if first is None else first.leaf

    def take(self, name: str, demand: Demand, next_job: Amounts | None) -> None:
        """Take the job of a queue, and state the one after it; None if it has no further one."""
        queue = self._queues.tree.queues[name]
        count_use(queue, demand.amounts, NOTHING, 1)
        self._taken.append((queue, demand))
        if next_job is None:
            del self._jobs[name]
        else:
            self._jobs[name] = next_job
        above: Queue | None = queue
        while above is not None:
            self._put(above)
            above = above.parent

    def end(self) -> None:
        """Count what was taken no more."""
        for queue, demand in self._taken:
            count_use(queue, demand.amounts, NOTHING, -1)
            self._queues.touched.add(queue.name)
        self._taken.clear()

    # --- how queues compare ---

    def _start(self, jobs: Mapping[str, Amounts]) -> None:
        queues = self._queues
        self._epoch = queues.epoch
        tree, total = queues.tree.queues.values(), queues.total
        self._terms = {queue: terms_of(queue, total) for queue in tree}
        in_order = sorted(tree, key=cmp_to_key(compare_unranked))
        self._order = {queue: number for number, queue in enumerate(in_order)}
        self._depths = {queue: sum(1 for _ in queue.path()) for queue in tree}
        self._jobs, self._branches, self._heaps = dict(jobs), {}, {}
        queues.touched.clear()
        self._update([queues.tree.queues[name] for name in jobs])

    def _update(self, changed: Iterable[Queue]) -> None:
        """Look at queues again, and at those above them, from the bottom up."""
        touched = {each for queue in changed for each in queue.path()}
        for queue in sorted(touched, key=self._depths.__getitem__, reverse=True):
            self._put(queue)

    def _put(self, queue: Queue) -> None:
        """Enter a queue with its next job, or with that of the first queue below it; or remove it."""
        job = self._jobs.get(queue.name)
        if job is not None:
            leaf = queue.name
        else:
            first = self._first(queue)
            if first is None:
                self._branches.pop(queue, None)
                return
            leaf, job = first.leaf, first.job
        terms = self._terms[queue]
        used = [term[1].allocated for term in terms]
        before = self._branches.get(queue)
        if before is not None and before.job is job and before.used == used:
            before.leaf = leaf  # it compares as before
            return
        ticket = next(self._tickets)
        self._branches[queue] = _Branch(ticket, leaf, job, used)
        heap = self._heaps.setdefault(queue.parent, [])
        if len(heap) > 2 * len(self._branches) + 64:
            self._compact(heap)
        ranked = rank_by(queue.priority, terms, job)
        heapq.heappush(heap, (*ranked, self._order[queue], ticket, queue))

    def _first(self, parent: Queue | None) -> _Branch | None:
        heap = self._heaps.get(parent)
        while heap:
            entry = heap[0]
            branch = self._branches.get(entry[-1])
            if branch is not None and branch.ticket == entry[-2]:
                return branch
            heapq.heappop(heap)
        return None

    def _compact(self, heap: list[tuple[Any, ...]]) -> None:
        heap[:] = [
            entry
            for entry in heap
            if (branch := self._branches.get(entry[-1])) is not None and branch.ticket == entry[-2]
        ]
        heapq.heapify(heap)
