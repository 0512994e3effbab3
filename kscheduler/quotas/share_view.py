"""What queues with shares would use with other pods: changes on trial, which the tree shows for the time of a check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kscheduler.api.objects import Pod
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.queues import NOTHING, Amounts, Queue
from kscheduler.quotas.reclaim import Refused, why_refused
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.use_sums import add, count_use


class ShareView:
    """What the queues use now, with pods added and removed on trial; valid until queues or pods change."""

    def __init__(self, queues: ShareQueues) -> None:
        self._queues = queues
        self._charged: dict[str, Demand | None] = {}  # uid -> its demand; None: released
        # Name of a queue, is it for preemptible pods? -> by how much what these use differs.
        self._changes: dict[tuple[str, bool], dict[str, int]] = {}

    def clone(self) -> ShareView:
        """Return an independent copy."""
        other = ShareView(self._queues)
        other._charged = dict(self._charged)
        other._changes = {key: dict(amounts) for key, amounts in self._changes.items()}
        return other

    def add(self, pod: Pod) -> None:
        """Count a pod, unless it is counted already."""
        if self._demand(pod.metadata.uid) is None:
            self.add_demand(pod.metadata.uid, self._queues.counted_demand(pod))

    def add_demand(self, uid: str, demand: Demand) -> None:
        """Count a pod that is not counted yet for this demand."""
        self._charged[uid] = demand
        self._change(demand, 1)

    def remove(self, uid: str) -> None:
        """Count a pod no more, if it is counted."""
        demand = self._demand(uid)
        if demand is not None:
            self._charged[uid] = None
            self._change(demand, -1)

    def _demand(self, uid: str) -> Demand | None:
        return self._charged[uid] if uid in self._charged else self._queues.charged(uid)

    def _change(self, demand: Demand, times: int) -> None:
        if demand.queue != NO_QUEUE:
            add(self._changes.setdefault((demand.queue, demand.is_preemptible), {}), demand.amounts, times)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the tree say what this view does, for the time of the context, in which nothing else may change."""
        applied: list[tuple[Queue, Amounts, Amounts]] = []
        try:
            for (name, is_preemptible), amounts in self._changes.items():
                queue = self._queues.get(name)
                if queue is not None and amounts:
                    non_preemptible = NOTHING if is_preemptible else amounts
                    count_use(queue, amounts, non_preemptible, 1)
                    applied.append((queue, amounts, non_preemptible))
            yield
        finally:
            for each in applied:
                count_use(*each, -1)

    def why_refused(self, demand: Demand) -> Refused | None:
        """Return why a queue, or one above it, does not take a pod; None if they do. It must be there."""
        queue = self._queues.tree.queues[demand.queue]
        with self.applied():
            return why_refused(queue, demand.amounts, is_preemptible=demand.is_preemptible)
