"""The order in which sibling queues get their turn, as in KAI-Scheduler.

Each rule decides between queues that are equal by the rules before: (1) not above its fair share in all resources;
(2) with its next job, within what it deserves; (3) higher priority; (4) no use of a resource of which it may use
nothing; (5) smaller dominant share with the job; (6) smaller dominant share without it; (7) the smaller claim;
(8) older.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from kscheduler.quotas.queues import Amounts, Queue, is_within

# A queue that may use nothing of a resource counts as using so many times what it uses.
PENALTY = 1000

Rank = tuple[bool, bool, int, bool, float, float]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queue with the request of its next job, empty if it has none."""

    queue: Queue
    job: Amounts


def in_order(candidates: Sequence[Candidate], total: Amounts) -> list[Candidate]:
    """Return the queues in the order of their turns. `total`: what there is of each resource."""

    def order(left: Candidate, right: Candidate) -> int:
        return compare(left, right, total)

    return sorted(candidates, key=cmp_to_key(order))


def compare(left: Candidate, right: Candidate, total: Amounts) -> int:
    """Return a negative number if `left` comes first, a positive one if `right` does."""
    return compare_ranked(left.queue, rank(left, total), right.queue, rank(right, total))


def compare_ranked(left: Queue, left_rank: Rank, right: Queue, right_rank: Rank) -> int:
    """Compare queues of which the ranks are known, as `compare` does."""
    if left_rank != right_rank:
        return -1 if left_rank < right_rank else 1
    smaller = _compare_claims(left, right)
    if smaller:
        return smaller
    mine, theirs = (left.created, left.name), (right.created, right.name)
    return (mine > theirs) - (mine < theirs)


def rank(candidate: Candidate, total: Amounts) -> Rank:
    """Return what the first six rules compare: the lower, the earlier."""
    queue, job = candidate.queue, candidate.job
    is_over, is_beyond_deserved, uses_nothing_allowed = True, False, False
    with_job = without = 0.0
    for resource, share in queue.shares.items():
        used = share.allocated
        would_use = used + job.get(resource, 0)
        may_use = share.allocatable
        is_over = is_over and used > share.fair
        is_beyond_deserved = is_beyond_deserved or not is_within(would_use, share.deserved)
        uses_nothing_allowed = uses_nothing_allowed or (may_use == 0 and would_use > 0)
        if may_use is None:
            may_use = total.get(resource, 0)
        with_job = max(with_job, _part(would_use, may_use))
        without = max(without, _part(used, may_use))
    return is_over, is_beyond_deserved, -queue.priority, uses_nothing_allowed, with_job, without


def dominant_share(queue: Queue, used: Amounts, total: Amounts) -> float:
    """Return the greatest part that the queue uses of what it may use, over all resources."""
    greatest = 0.0
    for resource, share in queue.shares.items():
        may_use = share.allocatable
        greatest = max(greatest, _part(used[resource], total.get(resource, 0) if may_use is None else may_use))
    return greatest


def _part(used: int, may_use: int) -> float:
    # The quotient of integers is the nearest floating-point number, so that equal parts are equal.
    return used / may_use if may_use else float(used * PENALTY)


def _compare_claims(left: Queue, right: Queue) -> int:
    """Return -1 if `left` may use no more of any resource than `right`, and less of one; 1 if it is the other way."""
    less = more = False
    for resource, share in left.shares.items():
        mine, theirs = share.allocatable, right.shares[resource].allocatable if resource in right.shares else 0
        less |= mine is not None and (theirs is None or mine < theirs)
        more |= theirs is not None and (mine is None or mine > theirs)
    return (more > less) - (more < less)
