"""Queues with shares in a tree: whose turn it is, and whether they take jobs, each counted before the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from kscheduler._fast.codes import MAX_AMOUNT, PENALTY
from kscheduler._fast.reference.checks import index


@final
class TurnOrder:
    """The queues of a tree by index, parents before the queues below them; only leaves have jobs.

    A queue's turn is that of the first leaf below it: at each level the sibling of the lowest rank comes first.
    """

    def __init__(
        self,
        parents: Sequence[int],
        priorities: Sequence[int],
        order: Sequence[int],
        terms: Sequence[Sequence[tuple[int, int, int, int, int, bool]]],
        resources: int,
    ) -> None:
        """Build the order of queues that use nothing and have no jobs.

        `parents`: the index of each queue's parent, -1 for none. `order`: decides between siblings of equal rank.
        `terms`: of each queue (resource, fair share, what it deserves or -1, limit or -1, the whole, may nothing be
        used?).
        """
        queues = len(parents)
        if not len(priorities) == len(order) == len(terms) == queues:
            raise ValueError(f"expected priorities, order and terms of {queues} queues")
        self._parents = list(parents)
        self._below: dict[int, list[int]] = {}  # queue, or -1 -> the queues below it
        for queue, parent in enumerate(parents):
            if not -1 <= parent < queue:
                raise ValueError(f"queue {queue}: expected a parent before it, got {parent}")
            self._below.setdefault(parent, []).append(queue)
            for resource, *_ in terms[queue]:
                index("resource", resource, resources)
        self._priorities = list(priorities)
        self._order = list(order)
        self._terms = list(terms)
        self._resources = resources
        self._used: list[tuple[int, ...]] = [(0,) * resources] * queues
        self._kept = list(self._used)  # by jobs that are not preemptible
        self._used_before = list(self._used)  # without what was taken or admitted since the last `end`
        self._kept_before = list(self._used)
        self._jobs: list[tuple[int, ...] | None] = [None] * queues
        self._alike = [0] * queues  # how many jobs are known to come after it that ask for as much

    def set_used(self, queue: int, used: tuple[int, ...], kept: tuple[int, ...]) -> None:
        """State what a queue, with those below it, uses of each resource. `kept`: by jobs that are not preemptible."""
        index("queue", queue, len(self._parents))
        self._used[queue] = self._used_before[queue] = self._read(used)
        self._kept[queue] = self._kept_before[queue] = self._read(kept)

    def charge(self, queue: int, job: tuple[int, ...], is_preemptible: bool, times: int) -> None:
        """Count so many placed jobs of a queue, there and in those above it; less of them if `times` is negative."""
        index("queue", queue, len(self._parents))
        asked = tuple(_times(amount, times) for amount in self._read(job))
        for each in self._path(queue):
            for amounts in (self._used, self._used_before):
                amounts[each] = tuple(map(_sum, amounts[each], asked))
            if not is_preemptible:
                for amounts in (self._kept, self._kept_before):
                    amounts[each] = tuple(map(_sum, amounts[each], asked))

    def admit(self, queue: int, job: tuple[int, ...], is_preemptible: bool, times: int) -> bool:
        """Return whether a queue and those above it take so many jobs together, and count them until `end` if so.

        No limit may be exceeded, nor what is deserved by jobs that are not preemptible.
        """
        index("queue", queue, len(self._parents))
        asked = tuple(_times(amount, times) for amount in self._read(job))
        for each in self._path(queue):
            for resource, _, deserved, limit, _, _ in self._terms[each]:
                if not asked[resource]:
                    continue
                if 0 <= _capped(limit) < _sum(self._used[each][resource], asked[resource]):
                    return False
                if not is_preemptible and 0 <= _capped(deserved) < _sum(self._kept[each][resource], asked[resource]):
                    return False
        for each in self._path(queue):
            self._used[each] = tuple(map(_sum, self._used[each], asked))
            if not is_preemptible:
                self._kept[each] = tuple(map(_sum, self._kept[each], asked))
        return True

    def set_job(self, queue: int, job: tuple[int, ...] | None, alike: int = 0) -> None:
        """State what the next job of a leaf asks for of each resource; None: it has none.

        `alike`: so many jobs after it, or more, ask for as much.
        """
        index("queue", queue, len(self._parents))
        if alike < 0:
            raise ValueError(f"alike: expected at least 0, got {alike}")
        self._jobs[queue] = None if job is None else self._read(job)
        self._alike[queue] = alike

    def first(self) -> int:
        """Return the leaf whose turn it is; -1 if none has a job."""
        return self._first(-1)

    def take(self, queue: int, next_job: tuple[int, ...] | None) -> int:
        """Count the job of a leaf as placed until `end`, state its next one, and return the leaf whose turn it is then.

        Raises ValueError if it has no job.
        """
        index("queue", queue, len(self._parents))
        job = self._jobs[queue]
        if job is None:
            raise ValueError(f"queue {queue} has no job")
        for each in self._path(queue):
            self._used[each] = tuple(map(_sum, self._used[each], job))
        self.set_job(queue, next_job)
        return self.first()

    def take_many(self, most: int) -> tuple[list[int], int]:
        """Take up to `most` jobs, each of the leaf whose turn it is, counted until `end`. Returns the leaves in order.

        It stops after the last job of a leaf that is known. The second value is that leaf, which has no job until its
        next one is stated; -1 if there is none.
        """
        taken: list[int] = []
        while len(taken) < most and (leaf := self.first()) >= 0:
            taken.append(leaf)
            alike = self._alike[leaf]
            if not alike:
                self.take(leaf, None)
                return taken, leaf
            self.take(leaf, self._jobs[leaf])
            self._alike[leaf] = alike - 1
        return taken, -1

    def end(self) -> None:
        """Count what was taken or admitted no more; jobs stay as they are."""
        self._used = list(self._used_before)
        self._kept = list(self._kept_before)

    def _path(self, queue: int) -> Iterator[int]:
        """Yield a queue and those above it."""
        while queue >= 0:
            yield queue
            queue = self._parents[queue]

    def _first(self, above: int) -> int:
        """Return the first leaf below a queue, or the queue itself if it has a job."""
        if above >= 0 and self._jobs[above] is not None:
            return above
        leaves = {queue: leaf for queue in self._below.get(above, ()) if (leaf := self._first(queue)) >= 0}
        first = min(leaves, key=lambda queue: self._rank(queue, leaves[queue]), default=-1)
        return leaves.get(first, -1)

    def _rank(self, queue: int, leaf: int) -> tuple[bool, bool, int, bool, float, float, int]:
        job = self._jobs[leaf]
        assert job is not None
        rank = rank_queue(self._terms[queue], self._used[queue], job)
        is_over, is_beyond, uses_closed, with_job, without = rank
        return is_over, is_beyond, -self._priorities[queue], uses_closed, with_job, without, self._order[queue]

    def _read(self, amounts: tuple[int, ...]) -> tuple[int, ...]:
        if len(amounts) != self._resources:
            raise ValueError(f"expected amounts of {self._resources} resources, got {len(amounts)}")
        return tuple(map(_capped, amounts))


def rank_queue(
    terms: Sequence[tuple[int, int, int, int, int, bool]], used: tuple[int, ...], job: tuple[int, ...]
) -> tuple[bool, bool, bool, float, float]:
    """Return what decides between a queue, with its next job, and its siblings: the lower, the earlier.

    These are: is it above its fair share in all resources? With the job, above what it deserves? Would it use something
    of which nothing may be used? Its dominant share with the job, and without. `terms`: as for a `TurnOrder`.
    """
    is_over, is_beyond, uses_closed = True, False, False
    with_job = without = 0.0
    for resource, fair, deserved, _, most, is_closed in terms:
        uses = _capped(used[resource])
        would_use = _sum(uses, _capped(job[resource]))
        is_over = is_over and uses > _capped(fair)
        is_beyond = is_beyond or 0 <= _capped(deserved) < would_use
        uses_closed = uses_closed or (is_closed and would_use > 0)
        with_job = max(with_job, _part(would_use, _capped(most)))
        without = max(without, _part(uses, _capped(most)))
    return is_over, is_beyond, uses_closed, with_job, without


def _part(used: int, most: int) -> float:
    """Return the part of the whole that is used; of nothing, so many times what is used.

    It is the nearest floating-point number, so that equal parts are equal.
    """
    return used / most if most else float(used * PENALTY)


def _sum(one: int, other: int) -> int:
    """Return the sum of two amounts, which counts as MAX_AMOUNT where it is more."""
    return _capped(one + other)


def _times(amount: int, times: int) -> int:
    """Return the amount so many times, which counts as MAX_AMOUNT where it is more."""
    return _capped(amount * times)


def _capped(amount: int) -> int:
    return max(-MAX_AMOUNT, min(MAX_AMOUNT, amount))
