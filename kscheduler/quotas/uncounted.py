"""Pods on nodes that their queues with shares do not count for the time of a trial."""

from __future__ import annotations

from kscheduler.quotas.pod_demand import Demand
from kscheduler.quotas.share_queues import ShareQueues


class Uncounted:
    """All that are in it must be put back before queues or nodes change."""

    def __init__(self, queues: ShareQueues) -> None:
        queues.refresh()  # so that no tree is rebuilt before all are back
        self._queues = queues
        self._demands: dict[str, Demand] = {}  # by the uid of the pod

    def take(self, uid: str) -> None:
        """Count a pod no more, if it is counted."""
        demand = self._queues.charged(uid)
        if demand is not None and uid not in self._demands:
            self._demands[uid] = demand
            self._queues.count_on_trial(demand, -1)

    def put_back(self, uid: str) -> None:
        """Count a pod again; others are ignored."""
        demand = self._demands.pop(uid, None)
        if demand is not None:
            self._queues.count_on_trial(demand, 1)

    def put_all_back(self) -> None:
        for uid in list(self._demands):
            self.put_back(uid)
