"""Adds up what pods use and ask for, for each queue with shares of a tree and for all above it."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.quotas.queues import Amounts, Queue


def add(to: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    """Add amounts in place, so many times; -1 subtracts them. Resources of which nothing is left are dropped."""
    for resource, amount in amounts.items():
        new = to.get(resource, 0) + times * amount
        if new:
            to[resource] = new
        else:
            to.pop(resource, None)


def count_use(queue: Queue, amounts: Amounts, non_preemptible: Amounts, times: int) -> None:
    """Add to what a queue and those above it use. Resources of which they have no share are not counted."""
    for each in queue.path():
        shares = each.shares
        for resource, amount in amounts.items():
            share = shares.get(resource)
            if share is not None:
                share.allocated += times * amount
        for resource, amount in non_preemptible.items():
            share = shares.get(resource)
            if share is not None:
                share.allocated_non_preemptible += times * amount


def count_request(queue: Queue, amounts: Amounts, times: int) -> bool:
    """Add to what a queue and those above it ask for. Returns True if fair shares may change by that.

    They do not if a queue asks for more than it gets, before and after: the division does not see how much more.
    """
    may_change = False
    for each in queue.path():
        shares = each.shares
        for resource, amount in amounts.items():
            share = shares.get(resource)
            if share is not None:
                before = share.request
                share.request = after = before + times * amount
                limit = share.limit
                if limit is not None:  # as `requestable`, without a call for each
                    before, after = min(limit, before), min(limit, after)
                may_change = may_change or (before != after and min(before, after) <= share.fair)
    return may_change
