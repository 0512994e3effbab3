"""The fair share of each queue: KAI-Scheduler's division of a cluster among a tree of queues.

Siblings divide each resource by itself. (1) Each gets what it deserves, as far as it asks for it. (2) The rest goes to
those that ask for more, by their weights, those of the highest priority first: in rounds, each gets its part of the
rest, rounded down; one that asks for less gets what it asks for, and its part is divided again. (3) Units that are left
by rounding go one by one to the queues from which most was taken by rounding. A queue's fair share is then divided
among the queues below it.

Weights may be corrected by past usage: with `k`, a queue that has used less than its part by weight gets more, and one
that has used more gets less. All arithmetic is exact; KAI-Scheduler's has the precision of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm

from kscheduler.quotas.queues import Amounts, Queue, Share

ONE = 1
NO_GRAINS: Mapping[str, int] = {}


def set_fair_shares(
    queues: Iterable[Queue], total: Amounts, *, grains: Mapping[str, int] = NO_GRAINS, k: int | Fraction = ONE
) -> None:
    """Set the fair shares of all queues of a tree. `total`: what there is to divide, by resource.

    `grains`: the least amount of a resource that is given to one queue and not to another, 1 by default: that of
    devices counted in thousandths is 1000.
    """
    children: dict[Queue | None, list[Queue]] = {}
    for queue in queues:
        children.setdefault(queue.parent, []).append(queue)
    waiting: list[tuple[Queue | None, Amounts]] = [(None, total)]
    while waiting:
        parent, amounts = waiting.pop()
        siblings = children.get(parent, [])
        for resource, amount in amounts.items():
            shares = {queue: queue.shares[resource] for queue in siblings if resource in queue.shares}
            divide(amount, shares, grain=grains.get(resource, 1), k=k)
        waiting.extend((each, {resource: share.fair for resource, share in each.shares.items()}) for each in siblings)


def divide(total: int, shares: Mapping[Queue, Share], *, grain: int = 1, k: int | Fraction = ONE) -> int:
    """Set the fair shares of siblings in one resource, and return what is left of the total.

    If more is deserved and asked for than there is, all get it nonetheless, and nothing is left.
    """
    if _is_enough(total, shares):
        left = total
        for share in shares.values():
            share.fair = share.requestable if share.weight > 0 else min(_promised(share, total), share.requestable)
            left -= share.fair
        return left
    left = total
    for share in shares.values():
        share.fair = min(_promised(share, total), share.requestable)
        left -= share.fair
    return divide_surplus(left, shares, grain=grain, k=k) if left > 0 else 0


def _is_enough(total: int, shares: Mapping[Queue, Share]) -> bool:
    """Return True if there is as much as all ask for together, so that all get it who have a weight.

    False if weights are corrected by past usage, since they may then be zero.
    """
    left = total
    for share in shares.values():
        left -= share.requestable
        if left < 0 or share.usage:
            return False
    return True


def _promised(share: Share, total: int) -> int:
    return total if share.deserved is None else share.deserved


def divide_surplus(amount: int, shares: Mapping[Queue, Share], *, grain: int = 1, k: int | Fraction = ONE) -> int:
    """Divide what nobody is promised, in addition to the fair shares so far; return what is left of it."""
    by_priority: dict[int, list[Queue]] = {}
    for queue in shares:
        by_priority.setdefault(queue.priority, []).append(queue)
    for priority in sorted(by_priority, reverse=True):
        if amount <= 0:
            break
        bucket = by_priority[priority]
        amount, rounded_off = _divide_by_weight(amount, bucket, shares, grain, k)
        for queue in _by_remainder(rounded_off):
            if amount <= 0:
                break
            unit = min(grain, amount)
            shares[queue].fair += unit
            amount -= unit
    return amount


def _divide_by_weight(
    amount: int, bucket: Sequence[Queue], shares: Mapping[Queue, Share], grain: int, k: int | Fraction
) -> tuple[int, dict[Queue, Fraction]]:
    """Divide an amount among queues of one priority until nobody asks for less than its part.

    Returns what is left, and by queue what was taken from its part by rounding it down.
    """
    rounded_off: dict[Queue, Fraction] = {}
    while amount > 0:
        weights = _weights([queue for queue in bucket if _wants(shares[queue])], shares, k)
        sum_of_weights = sum(weights.values())
        if not sum_of_weights:
            break
        to_divide, is_another_round_due = amount, False
        for queue, weight in weights.items():
            share = shares[queue]
            wanted = share.requestable - share.fair
            numerator = to_divide * weight
            if wanted * sum_of_weights <= numerator:
                given = wanted
                rounded_off.pop(queue, None)
                is_another_round_due |= wanted * sum_of_weights < numerator
            else:
                given = numerator // (sum_of_weights * grain) * grain
                if given * sum_of_weights < numerator:
                    rounded_off[queue] = Fraction(numerator, sum_of_weights) - given
            share.fair += given
            amount -= given
        if not is_another_round_due:
            break
    return amount, rounded_off


def _wants(share: Share) -> bool:
    return share.weight > 0 and share.requestable > share.fair


def _weights(wanting: Sequence[Queue], shares: Mapping[Queue, Share], k: int | Fraction) -> dict[Queue, int]:
    """Return the weights of queues that ask for more, as integers of the same proportions."""
    total = sum(shares[queue].weight for queue in wanting)
    exact: dict[Queue, int | Fraction] = {}
    for queue in wanting:
        share = shares[queue]
        if share.usage and k:
            part = Fraction(share.weight) / total
            exact[queue] = max(Fraction(0), part + k * (part - share.usage)) * total
        else:
            exact[queue] = share.weight * (1 + k)
    denominator = lcm(*(weight.denominator for weight in exact.values()))
    return {queue: int(weight * denominator) for queue, weight in exact.items()}


def _by_remainder(rounded_off: Mapping[Queue, Fraction]) -> list[Queue]:
    """Return the queues, those first from which most was taken by rounding; of equal ones the oldest first."""
    return sorted(rounded_off, key=lambda queue: (-rounded_off[queue], queue.created, queue.name))
