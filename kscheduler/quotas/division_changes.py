"""Which pods may take room of other queues that could not before, because the fair shares have changed.

They change without any event that concerns such a pod: when pods of another queue that wait are deleted, or change what
they ask for, and when another queue is given more or less.
"""

from __future__ import annotations

from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.queues import NOTHING, Queue
from kscheduler.quotas.reclaim import can_reclaim, may_take_from
from kscheduler.quotas.share_queues import ShareQueues

# A queue's fair share of each resource, and what it may use of it before others may reclaim (None: all there is).
Shares = dict[str, tuple[int, int | None]]


class DivisionChanges:
    """Remembers the fair shares, and compares them with those that there are now."""

    def __init__(self, queues: ShareQueues) -> None:
        self._queues = queues
        self._epoch = -1
        self._before: dict[str, Shares] = {}

    def are_helpful(self) -> bool:
        """Return True if since the last call a fair share has grown, or what a queue may keep has become less."""
        queues = self._queues
        queues.refresh()
        if queues.epoch == self._epoch:
            return False
        before, now = self._before, {name: _shares_of(queue) for name, queue in queues.tree.queues.items()}
        self._epoch, self._before = queues.epoch, now
        return any(_is_helpful(before.get(name, {}), shares) for name, shares in now.items())

    def may_reclaim(self, demand: Demand) -> bool:
        """Return True if a pod's queue may take room for it, and some other queue has room that may be taken."""
        queues = self._queues
        queue = queues.leaf(demand.queue)
        if queue is None or not can_reclaim(queue, demand.amounts, is_preemptible=demand.is_preemptible):
            return False
        others = map(queues.get, queues.priorities.namespaces())
        return any(
            other is not None and other is not queue and self._may_take(queue, demand, other) for other in others
        )

    def _may_take(self, queue: Queue, demand: Demand, other: Queue) -> bool:
        """Return True if a pod that needs nothing may be taken from the other queue: else no pod may."""
        return may_take_from(
            queue,
            demand.amounts,
            {other: [NOTHING]},
            is_preemptible=demand.is_preemptible,
            saturation_multiplier=self._queues.saturation_multiplier,
        )


def _shares_of(queue: Queue) -> Shares:
    return {resource: (share.fair, share.allocatable) for resource, share in queue.shares.items()}


def _is_helpful(before: Shares, now: Shares) -> bool:
    for resource, (fair, keeps) in now.items():
        fair_before, kept_before = before.get(resource, (0, None))
        if fair > fair_before or (keeps is not None and (kept_before is None or keeps < kept_before)):
            return True
    return False
