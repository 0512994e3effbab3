"""The order in which sibling queues get their turn, as in KAI-Scheduler.

Each rule decides between queues that are equal by the rules before: (1) not above its fair share in all resources;
(2) with its next job, within what it deserves; (3) higher priority; (4) no use of a resource of which it may use
nothing; (5) smaller dominant share with the job; (6) smaller dominant share without it; (7) the smaller claim;
(8) older.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key

from kscheduler.quotas.queues import Amounts, Queue, is_within

# A queue that may use nothing of a resource counts as using so many times what it uses.
PENALTY = 1000


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
    first = _first_rules(left, total), _first_rules(right, total)
    if first[0] != first[1]:
        return -1 if first[0] < first[1] else 1
    smaller = _compare_claims(left.queue, right.queue)
    if smaller:
        return smaller
    mine, theirs = (left.queue.created, left.queue.name), (right.queue.created, right.queue.name)
    return (mine > theirs) - (mine < theirs)


def _first_rules(candidate: Candidate, total: Amounts) -> tuple[bool, bool, int, bool, Fraction, Fraction]:
    queue, job = candidate.queue, candidate.job
    with_job = {resource: amount + job.get(resource, 0) for resource, amount in queue.allocated().items()}
    shares = queue.shares.items()
    return (
        all(share.allocated > share.fair for _, share in shares),
        not all(is_within(with_job[resource], share.deserved) for resource, share in shares),
        -queue.priority,
        any(share.allocatable == 0 and with_job[resource] > 0 for resource, share in shares),
        dominant_share(queue, with_job, total),
        dominant_share(queue, queue.allocated(), total),
    )


def dominant_share(queue: Queue, used: Amounts, total: Amounts) -> Fraction:
    """Return the greatest part that the queue uses of what it may use, over all resources."""
    greatest = Fraction(0)
    for resource, share in queue.shares.items():
        may_use = share.allocatable
        if may_use is None:
            may_use = total.get(resource, 0)
        greatest = max(greatest, Fraction(used[resource], may_use) if may_use else Fraction(used[resource] * PENALTY))
    return greatest


def _compare_claims(left: Queue, right: Queue) -> int:
    """Return -1 if `left` may use no more of any resource than `right`, and less of one; 1 if it is the other way."""
    less = more = False
    for resource, share in left.shares.items():
        mine, theirs = share.allocatable, right.shares[resource].allocatable if resource in right.shares else 0
        less |= mine is not None and (theirs is None or mine < theirs)
        more |= theirs is not None and (mine is None or mine > theirs)
    return (more > less) - (more < less)
