"""Says whether a queue with shares may use the room that is to be kept for a gang of it.

The queue may if it stays within its fair share with the gang, or within what it deserves if that is more. What it uses
beside is counted without the pods that have overtaken the gang: those that are younger and no more important. The gang
is to be protected from these; if they counted, a queue that is full of them would never get room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.gangs.room_to_come import RoomToCome
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.quotas.pod_demand import Demand, together
from kscheduler.quotas.queues import Amounts, Queue, is_within
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.uncounted import Uncounted


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What a gang's queue with shares may use, for one look at the cluster."""

    queues: ShareQueues
    demand: Demand  # of the pods that the gang lacks, together
    overtakers: Sequence[str]  # uids of the pods on nodes that have overtaken it

    @classmethod
    def of(
        cls, queues: ShareQueues, members: Sequence[QueuedPodInfo], missing: int, own: frozenset[str]
    ) -> Entitlement | None:
        """Return the entitlement for so many of these pods; `own`: uids of pods of the gang that are on nodes.

        None if the pods are not all in one queue that takes pods, or if it may not use so much even with no other pod.
        """
        demand = together([queues.demand_of(queued.pod_info.pod) for queued in members], missing)
        queues.refresh()
        leaf = None if demand is None else queues.leaf(demand.queue)
        if demand is None or leaf is None or not _may_use(leaf, {}, demand.amounts):
            return None
        created = sorted(queued.pod_info.pod.metadata.creation_timestamp or "" for queued in members)
        since = created[min(missing, len(created)) - 1]  # from then on there were enough of them
        least = min(queued.pod_info.priority for queued in members)
        younger = queues.younger(demand.queue, since, least) if since else ()
        return cls(queues, demand, [uid for uid in younger if uid not in own])

    def without_overtakers(self) -> Uncounted:
        """Let the queue not count the pods that have overtaken the gang, until the caller puts all back."""
        uncounted = Uncounted(self.queues)
        for uid in self.overtakers:
            uncounted.take(uid)
        return uncounted

    def covers(self, found: RoomToCome) -> bool:
        """Return whether the queue may use the room beside what it uses once the pods have ended that are awaited."""
        uncounted = self.without_overtakers()
        for uid in found.awaited_uids:
            uncounted.take(uid)
        leaf = self.queues.tree.queues[self.demand.queue]
        try:
            return _may_use(leaf, leaf.allocated(), self.demand.amounts)
        finally:
            uncounted.put_all_back()


def _may_use(queue: Queue, used: Amounts, more: Amounts) -> bool:
    """Return whether a queue may use so much more beside what it uses, before others may reclaim it."""
    return all(
        is_within(used.get(name, 0) + more.get(name, 0), share.allocatable) for name, share in queue.shares.items()
    )
