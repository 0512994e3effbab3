"""Says how queues with shares stand with resources: in one line, with one more job, and in numbers for metrics."""

from __future__ import annotations

from kscheduler.api.resources import CPU
from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.running import quantity_of
from kscheduler.quotas.share_queues import ShareQueues

MILLI = 1000


def path_of(queue: Queue) -> str:
    """Return the names from the top of the tree down to the queue, such as "team-a/train"."""
    return "/".join(each.name for each in reversed(list(queue.path())))


def standing(queue: Queue, resource: str, requested: int = 0) -> str:
    """Return a line such as "team-a/train: 40 of 32 deserved, fair share 44, would be 52".

    A request of 0 leaves the last part out.
    """
    share = queue.shares.get(resource, Share(deserved=None))
    deserved = "unlimited" if share.deserved is None else quantity_of(resource, share.deserved)
    parts = [f"{path_of(queue)}: {quantity_of(resource, share.allocated)} of {deserved} deserved"]
    parts.append(f"fair share {quantity_of(resource, share.fair)}")
    if share.limit is not None:
        parts.append(f"limit {quantity_of(resource, share.limit)}")
    if requested:
        parts.append(f"would be {quantity_of(resource, share.allocated + requested)}")
    return ", ".join(parts)


def share_amounts(queues: ShareQueues) -> dict[tuple[str, str, str], float]:
    """Return (queue, resource, what) -> amount, cpu in cores, of all queues that can be used.

    What: "used", "requested", "fair_share", and "deserved" and "limit" where they are not unlimited.
    """
    queues.refresh()
    amounts: dict[tuple[str, str, str], float] = {}
    for queue in queues.tree.queues.values():
        for resource, share in queue.shares.items():
            unit = MILLI if resource == CPU else 1
            stated = (
                ("used", share.allocated),
                ("requested", share.request),
                ("fair_share", share.fair),
                ("deserved", share.deserved),
                ("limit", share.limit),
            )
            for what, amount in stated:
                if amount is not None:
                    amounts[queue.name, resource, what] = amount / unit
    return amounts
