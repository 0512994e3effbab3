"""What queues with shares leave to pods that are placed one after the other, each counted before the next is compared.

The comparisons are those of `why_refused` for a pod before which no nominated pods go. Each takes one walk up the tree.
"""

from __future__ import annotations

from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.queues import Queue
from kscheduler.quotas.share_queues import ShareQueues


class ShareRoom:
    """What the queues take beside what they use, and what was counted here. Valid until queues or pods change."""

    def __init__(self, queues: ShareQueues) -> None:
        self._queues = queues
        self._tree = queues.tree.queues
        self._leaves = queues.leaves
        # Queue -> resource -> what was counted here; of all pods, and of those that are not preemptible.
        self._counted: dict[Queue, dict[str, int]] = {}
        self._kept: dict[Queue, dict[str, int]] = {}

    def has(self, demand: Demand, number: int = 1) -> bool:
        """Return True if the queue and those above it take so many pods. False if it takes no pods at all."""
        if demand.queue not in self._leaves:
            return False
        amounts, is_preemptible = demand.amounts, demand.is_preemptible
        for queue in self._tree[demand.queue].path():
            counted = self._counted.get(queue)
            kept = self._kept.get(queue)
            for resource, share in queue.shares.items():
                amount = amounts.get(resource)
                if not amount:
                    continue
                asked = number * amount
                if share.limit is not None:
                    beside = 0 if counted is None else counted.get(resource, 0)
                    if share.allocated + beside + asked > share.limit:
                        return False
                if not is_preemptible and share.deserved is not None:
                    beside = 0 if kept is None else kept.get(resource, 0)
                    if share.allocated_non_preemptible + beside + asked > share.deserved:
                        return False
        return True

    def count(self, demand: Demand, number: int = 1) -> None:
        """Count so many pods, whether there was room for them or not."""
        queue = self._tree.get(demand.queue)
        if queue is None:
            return
        for each in queue.path():
            for all_counted in (self._counted,) if demand.is_preemptible else (self._counted, self._kept):
                counted = all_counted.get(each)
                if counted is None:
                    counted = all_counted[each] = {}
                for resource, amount in demand.amounts.items():
                    counted[resource] = counted.get(resource, 0) + number * amount
