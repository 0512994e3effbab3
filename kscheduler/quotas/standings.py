"""Says in one line how a queue stands with a resource, and how it would with one more job."""

from __future__ import annotations

from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.running import quantity_of


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
