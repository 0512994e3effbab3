"""The order in which sibling queues get their turn, as in KAI-Scheduler.

Each rule decides between queues that are equal by the rules before: (1) not above its fair share in all resources;
(2) with its next job, within what it deserves; (3) higher priority; (4) no use of a resource of which it may use
nothing; (5) smaller dominant share with the job; (6) smaller dominant share without it; (7) the smaller claim;
(8) older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from kscheduler._fast import PENALTY, rank_queue
from kscheduler.quotas.queues import Amounts, Queue

Rank = tuple[bool, bool, int, bool, float, float]
# Place of a resource, fair share, what is deserved or -1, limit or -1, the whole that may be used, may nothing be used?
Term = tuple[int, int, int, int, int, bool]


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
    left_rank, right_rank = rank(left, total), rank(right, total)
    if left_rank != right_rank:
        return -1 if left_rank < right_rank else 1
    return compare_unranked(left.queue, right.queue)


def rank(candidate: Candidate, total: Amounts) -> Rank:
    """Return what the first six rules compare: the lower, the earlier."""
    queue, shares = candidate.queue, candidate.queue.shares
    terms = terms_of(queue, total, {resource: place for place, resource in enumerate(shares)})
    used = tuple(share.allocated for share in shares.values())
    job = tuple(candidate.job.get(resource, 0) for resource in shares)
    is_over, is_beyond_deserved, uses_nothing_allowed, with_job, without = rank_queue(terms, used, job)
    return is_over, is_beyond_deserved, -queue.priority, uses_nothing_allowed, with_job, without


def terms_of(queue: Queue, total: Amounts, places: Mapping[str, int]) -> list[Term]:
    """Return what a queue may use, for kernels that compare queues. Valid until its terms or fair shares change.

    `places`: resource -> its place in vectors.
    """
    terms: list[Term] = []
    for resource, share in queue.shares.items():
        may_use = share.allocatable
        most = total.get(resource, 0) if may_use is None else may_use
        deserved = -1 if share.deserved is None else share.deserved
        limit = -1 if share.limit is None else share.limit
        terms.append((places[resource], share.fair, deserved, limit, most, may_use == 0))
    return terms


def compare_unranked(left: Queue, right: Queue) -> int:
    """Compare queues of equal ranks, by the last two rules."""
    smaller = _compare_claims(left, right)
    if smaller:
        return smaller
    mine, theirs = (left.created, left.name), (right.created, right.name)
    return (mine > theirs) - (mine < theirs)


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
