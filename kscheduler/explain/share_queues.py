"""Describes how the queue with shares of a pending pod stands, and those above it, and how they would with the pod.

It is computed when somebody asks, and costs nothing before. Nominated pods that go before the pod are compared together
with it when it is decided, and are not counted here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.errors import DecodeError
from kscheduler.explain.quotas import amount_text
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.queues import Queue, Share
from kscheduler.quotas.reclaim import can_reclaim
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_standings import path_of, standing

BEYOND_LIMIT, BEYOND_DESERVED, BEYOND_FAIR_SHARE = "limit", "deserved", "fair share"

Document = dict[str, Any]


class WaitingGang(NamedTuple):
    """What a gang in the queue asks for."""

    pods: int  # that must get nodes at once
    demand: Demand | None  # of all of them; None if they are not all in one queue, or take no room of others


class ShareQueueExplainer:
    """Compares pods with their queues with shares."""

    def __init__(self, queues: ShareQueues) -> None:
        self._queues = queues

    def explain(self, pod: Pod, gang: WaitingGang | None = None) -> Document | None:
        """Return a JSON document about a pod that waits, or None if it is in no queue, or nobody shares by queues.

        `gang`: the gang that it waits with, which takes room of other queues as a whole.
        """
        queues = self._queues
        if not queues.is_followed:
            return None
        try:
            demand = queues.demands.of(pod)
        except DecodeError:
            return None
        if demand.queue == NO_QUEUE:
            return None
        queues.refresh()
        queue = queues.get(demand.queue)
        path = [] if queue is None else list(queue.path())
        whole = demand if gang is None else gang.demand
        return {
            "name": demand.queue if queue is None else path_of(queue),
            "unusable": queues.why_unusable(demand.queue),
            "isPreemptible": demand.is_preemptible,
            "mayReclaim": queue is not None
            and whole is not None
            and can_reclaim(queue, whole.amounts, is_preemptible=whole.is_preemptible),
            "reclaimsForPods": 1 if gang is None else gang.pods,
            "levels": [self._level(each, demand) for each in path],
        }

    def _level(self, queue: Queue, demand: Demand) -> Document:
        return {
            "name": path_of(queue),
            "resources": [
                _standing(queue, resource, share, demand) for resource, share in sorted(queue.shares.items())
            ],
        }


def _standing(queue: Queue, resource: str, share: Share, demand: Demand) -> Document:
    requested = demand.amounts.get(resource, 0)
    would_use = share.allocated + requested
    beyond = []
    if requested and share.limit is not None and would_use > share.limit:
        beyond.append(BEYOND_LIMIT)
    fixed = share.allocated_non_preemptible + requested
    if requested and not demand.is_preemptible and share.deserved is not None and fixed > share.deserved:
        beyond.append(BEYOND_DESERVED)
    if requested and would_use > share.fair:
        beyond.append(BEYOND_FAIR_SHARE)
    return {
        "resource": resource,
        "requested": amount_text(resource, requested),
        "used": amount_text(resource, share.allocated),
        "usedNonPreemptible": amount_text(resource, share.allocated_non_preemptible),
        "asked": amount_text(resource, share.request),
        "deserved": _bound_text(resource, share.deserved),
        "fairShare": amount_text(resource, share.fair),
        "limit": _bound_text(resource, share.limit),
        "beyond": beyond,
        "line": standing(queue, resource, requested),
    }


def _bound_text(resource: str, amount: int | None) -> str:
    return "unlimited" if amount is None else amount_text(resource, amount)
