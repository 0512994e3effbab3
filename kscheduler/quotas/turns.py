"""Whose turn it is: the queue with shares from which the next job is taken, level by level from the top of the tree.

Every job that is taken counts at once, as if it was placed, so that the next turn may be another queue's. When all
turns are taken, the tree is as it was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.queue_order import Candidate, Rank, compare_ranked, rank
from kscheduler.quotas.queues import Amounts, Queue
from kscheduler.quotas.share_queues import NOTHING, ShareQueues, count_use


@dataclass(slots=True)
class _Branch:
    """A queue from which, or from below which, a job may be taken."""

    queue: Queue
    rank: Rank
    leaf: str  # the name of the queue that has the job
    job: Amounts


@dataclass(slots=True)
class Turns:
    """The turns of queues that have jobs. Make them with `turns`."""

    _total: Amounts
    _tree: Mapping[str, Queue]
    _branches: dict[Queue | None, dict[Queue, _Branch]] = field(default_factory=dict)  # by parent, then queue
    _taken: list[tuple[Queue, Demand]] = field(default_factory=list)

    def next(self) -> str | None:
        """Return the name of the queue whose turn it is; None if none has a job."""
        first = self._first(None)
        return None if first is None else first.leaf

    def start(self, jobs: Mapping[str, Amounts]) -> None:
        """State the first jobs of queues that take pods."""
        above: dict[Queue, int] = {}  # -> how many are above it
        for name, job in jobs.items():
            self._put(name, job)
            path = list(self._tree[name].path())[:0:-1]
            above.update((queue, depth) for depth, queue in enumerate(path))
        for queue in sorted(above, key=above.__getitem__, reverse=True):
            self._settle(queue)

    def _put(self, name: str, job: Amounts) -> None:
        queue = self._tree[name]
        branch = _Branch(queue, rank(Candidate(queue, job), self._total), name, job)
        self._branches.setdefault(queue.parent, {})[queue] = branch

    def take(self, name: str, demand: Demand, next_job: Amounts | None) -> None:
        """Take the job of a queue, and state the one after it; None if it has no further one."""
        queue = self._tree[name]
        count_use(queue, demand.amounts, NOTHING, 1)
        self._taken.append((queue, demand))
        if next_job is not None:
            self._put(name, next_job)
        else:
            del self._branches[queue.parent][queue]
        for above in list(queue.path())[1:]:
            self._settle(above)

    def _settle(self, queue: Queue) -> None:
        """Let a queue stand for the first job below it."""
        siblings = self._branches.setdefault(queue.parent, {})
        first = self._first(queue)
        if first is None:
            siblings.pop(queue, None)
        else:
            ranked = rank(Candidate(queue, first.job), self._total)
            siblings[queue] = _Branch(queue, ranked, first.leaf, first.job)

    def _first(self, parent: Queue | None) -> _Branch | None:
        first: _Branch | None = None
        for each in self._branches.get(parent, {}).values():
            if first is None or compare_ranked(each.queue, each.rank, first.queue, first.rank) < 0:
                first = each
        return first

    def undo(self) -> None:
        """Count what was taken no more."""
        for queue, demand in self._taken:
            count_use(queue, demand.amounts, NOTHING, -1)
        self._taken.clear()


@contextmanager
def turns(queues: ShareQueues, jobs: Mapping[str, Amounts]) -> Iterator[Turns]:
    """Yield the turns of the queues that have jobs, by the names of queues that take pods.

    Nothing else may change while the context lasts.
    """
    found = Turns(queues.total, queues.tree.queues)
    found.start(jobs)
    try:
        yield found
    finally:
        found.undo()
