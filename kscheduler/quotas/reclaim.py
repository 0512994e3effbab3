"""What a job may take of a queue, and back from other queues: KAI-Scheduler's gates and rules of reclaim.

A job is *preemptible* if others may reclaim its room. A queue may give room to jobs beyond what it deserves, but only
to preemptible ones. A pending job may reclaim room for its queue up to the queue's fair share, from queues that are
above what they may use, or, while its own queue stays within what it deserves, from those above what they deserve. The
two queues are compared at the level just below their lowest common ancestor. Pure functions over `queues`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kscheduler.quotas.queues import Amounts, Queue, Share, is_within


class Refusal(enum.Enum):
    """The reason why a queue does not take a job, by KAI-Scheduler's name for it."""

    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Refusal
    queue: Queue  # the job's own, or one above it
    resource: str
    would_use: int
    most: int


def why_refused(queue: Queue, request: Amounts, *, is_preemptible: bool) -> Refused | None:
    """Return why the queue, or one above it, does not take a job; None if it does.

    Exceeded limits come before what a job that is not preemptible must stay within. Walks up the tree once for each.
    """
    for each in queue.path():
        for resource, amount, share in _requested(each, request):
            used = share.allocated + amount
            if share.limit is not None and used > share.limit:
                return Refused(Refusal.OVER_LIMIT, each, resource, used, share.limit)
    if is_preemptible:
        return None
    for each in queue.path():
        for resource, amount, share in _requested(each, request):
            used = share.allocated_non_preemptible + amount
            if share.deserved is not None and used > share.deserved:
                return Refused(Refusal.NON_PREEMPTIBLE_OVER_QUOTA, each, resource, used, share.deserved)
    return None


def _requested(queue: Queue, request: Amounts) -> Iterator[tuple[str, int, Share]]:
    """Yield each resource of which a job requests something and the queue has a share."""
    for resource, amount in request.items():
        share = queue.shares.get(resource)
        if share is not None and amount:
            yield resource, amount, share


def can_reclaim(queue: Queue, request: Amounts, *, is_preemptible: bool) -> bool:
    """Return True if the queue may reclaim room for a pending job: with it, it stays within its fair share."""
    for resource, share in queue.shares.items():
        amount = request.get(resource, 0)
        if share.allocated + amount > share.fair:
            return False
        if not is_preemptible and not is_within(share.allocated_non_preemptible + amount, share.deserved):
            return False
    return True


def may_take_from(
    queue: Queue,
    request: Amounts,
    victims: Mapping[Queue, Sequence[Amounts]],
    *,
    is_preemptible: bool,
    saturation_multiplier: int | Fraction = 1,
) -> bool:
    """Return True if a pending job of a queue may take the room of all these victims, given by their queues.

    The victims of a queue are judged in order: before each, the queue's use must still be above its bound.
    """
    taking = Taking(queue, request, is_preemptible=is_preemptible, saturation_multiplier=saturation_multiplier)
    for theirs, requests in victims.items():
        for victim in requests:
            if not taking.is_exposed(theirs):
                return False
            taking.take(theirs, victim)
    return taking.is_fair()


class Taking:
    """Room that a pending job of a queue takes, victim by victim. Valid until what queues use changes."""

    def __init__(
        self,
        queue: Queue,
        request: Amounts,
        *,
        is_preemptible: bool,
        saturation_multiplier: int | Fraction = 1,
    ) -> None:
        self._queue = queue
        self._request = request
        self._is_preemptible = is_preemptible
        self._multiplier = saturation_multiplier
        self._remaining: dict[Queue, dict[str, int]] = {}  # what queues use without the victims taken so far
        self._involved: dict[Queue, set[str]] = {}  # the resources of a queue's victims

    def is_exposed(self, theirs: Queue) -> bool:
        """Return True if the queue uses so much, without what was taken, that one more victim may be taken of it."""
        mine_there, theirs_there = below_common_ancestor(self._queue, theirs)
        used = self._remaining.get(theirs_there)
        return _is_reclaimable(
            mine_there, self._request, theirs_there, theirs_there.allocated() if used is None else used
        )

    def take(self, theirs: Queue, victim: Amounts) -> None:
        """Count a victim of a queue as taken."""
        resources = {resource for resource, amount in victim.items() if amount}
        for each in theirs.path():
            used = self._remaining.get(each)
            if used is None:
                used = self._remaining[each] = each.allocated()
            _subtract(used, victim)
            self._involved.setdefault(each, set()).update(resources)

    def take_together(self, victims: Mapping[Queue, Amounts]) -> bool:
        """Take pods that leave together, given by what they use of each queue, if they may be taken as one victim.

        Returns False if they may not; then nothing is taken.
        """
        if not all(map(self.is_exposed, victims)):
            return False
        touched = {each for theirs in victims for each in theirs.path()}
        remaining = {each: dict(self._remaining[each]) for each in touched if each in self._remaining}
        involved = {each: set(self._involved[each]) for each in touched if each in self._involved}
        for theirs, amounts in victims.items():
            self.take(theirs, amounts)
        if self.is_fair():
            return True
        for each in touched:
            if each in remaining:
                self._remaining[each], self._involved[each] = remaining[each], involved[each]
            else:
                del self._remaining[each], self._involved[each]
        return False

    def is_fair(self) -> bool:
        """Return True if the queues on the job's path would not be more saturated than the siblings that gave room.

        A saturation is what is used divided by the fair share. A job that is not preemptible must also stay within what
        each queue on its path deserves.
        """
        request, remaining = self._request, self._remaining
        requested = {resource for resource, amount in request.items() if amount}
        for each in self._queue.path():
            used = dict(remaining.get(each) or each.allocated())
            for resource, amount in request.items():
                used[resource] = used.get(resource, 0) + amount
            # Within its fair share it is compared with nobody.
            is_beyond = any(used[resource] > share.fair for resource, share in each.shares.items())
            for sibling, theirs in remaining.items() if is_beyond else ():
                if sibling.parent is not each.parent or sibling is each:
                    continue
                resources = self._involved[sibling] | requested
                if not _is_less_saturated(each, used, sibling, theirs, resources, self._multiplier):
                    return False
            if not self._is_preemptible and not all(
                is_within(share.allocated_non_preemptible + request.get(resource, 0), share.deserved)
                for resource, share in each.shares.items()
            ):
                return False
        return True


def _is_reclaimable(mine: Queue, request: Amounts, theirs: Queue, used: Amounts) -> bool:
    """Return True if a victim may be taken from a queue that uses so much, for a job of `mine` or a queue below it."""
    shares = theirs.shares
    if not all(is_within(used[resource], share.allocatable) for resource, share in shares.items()):
        return True
    if not all(
        is_within(share.allocated + request.get(resource, 0), share.deserved) for resource, share in mine.shares.items()
    ):
        return False
    return not all(is_within(used[resource], share.deserved) for resource, share in shares.items())


def _is_less_saturated(
    mine: Queue, used: Amounts, sibling: Queue, theirs: Amounts, resources: Iterable[str], multiplier: int | Fraction
) -> bool:
    for resource in resources:
        if resource not in mine.shares or resource not in sibling.shares:
            continue
        fair, fair_to_them = mine.shares[resource].fair, sibling.shares[resource].fair
        if used[resource] <= fair or (fair and not fair_to_them):
            continue  # within its fair share, or less saturated than any queue that has no share
        if not fair_to_them:  # neither has a share, as where queues below them are promised more than there is
            if multiplier * used[resource] > theirs[resource]:
                return False
            continue
        if not fair or multiplier * Fraction(used[resource], fair) >= Fraction(theirs[resource], fair_to_them):
            return False
    return True


def below_common_ancestor(queue: Queue, other: Queue) -> tuple[Queue, Queue]:
    """Return the queues on both paths just below their lowest common ancestor.

    If one queue is above the other, these are both that queue.
    """
    paths = [list(each.path())[::-1] for each in (queue, other)]
    found = paths[0][0], paths[1][0]
    for mine, theirs in zip(*paths, strict=False):
        found = mine, theirs
        if mine is not theirs:
            break
    return found


def _subtract(used: dict[str, int], request: Amounts) -> None:
    for resource, amount in request.items():
        used[resource] = used.get(resource, 0) - amount
