"""Describes how the queue with shares of a pending pod stands, and those above it, and how they would with the pod.

What is named as exceeded keeps the pod from a node: a limit on its queue's path, or what a queue there deserves if the
pod is not preemptible; or it keeps the pod from taking room of others: the fair share of its own queue. The fair shares
of the queues above keep it from neither by themselves.

It is computed when somebody asks, and costs nothing before. Nominated pods that go before the pod are compared together
with it when it is decided, and are not counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kscheduler.api.objects import Pod
from kscheduler.errors import DecodeError
from kscheduler.explain.quotas import amount_text
from kscheduler.quotas.pod_demand import NO_QUEUE, Demand
from kscheduler.quotas.queues import NOTHING, Queue, Share, is_within
from kscheduler.quotas.reclaim import can_reclaim, may_take_from
from kscheduler.quotas.share_queues import ShareQueues
from kscheduler.quotas.share_standings import path_of, standing

BEYOND_LIMIT, BEYOND_DESERVED, BEYOND_FAIR_SHARE = "limit", "deserved", "fair share"
MAX_QUEUES = 5  # that are named of those that may have to give room, or that take pods
NEVER = "Never"

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
        """Return a JSON document about a pod that waits, or None if it is in no queue.

        `gang`: the gang that it waits with, which takes room of other queues as a whole.
        """
        queues = self._queues
        try:
            demand = queues.demands.of(pod)
        except DecodeError:
            return None
        if demand.queue == NO_QUEUE:
            return None
        queues.refresh()
        named, leaf = queues.get(demand.queue), queues.leaf(demand.queue)
        whole = demand if gang is None else gang.demand
        asked, pods = (demand, 1) if gang is None or gang.demand is None else (gang.demand, gang.pods)
        levels = [_level(each, asked, is_own=each is leaf, is_usable=leaf is not None) for each in _path(named)]
        never = pod.spec.preemption_policy == NEVER
        may_reclaim = leaf is not None and whole is not None and not never and _may_reclaim(leaf, whole)
        givers = self._givers(leaf, whole) if may_reclaim and leaf is not None and whole is not None else []
        below = [] if named is None or leaf is not None else self._leaves_below(named)
        return {
            "name": demand.queue if named is None else path_of(named),
            "unusable": queues.why_unusable(demand.queue),
            "takePods": below[:MAX_QUEUES],  # queues below one that takes none
            "takePodsLeftOut": max(len(below) - MAX_QUEUES, 0),
            "isPreemptible": demand.is_preemptible,
            "preemptsNever": never,
            "mayReclaim": may_reclaim,
            "reclaimsForPods": 1 if gang is None else gang.pods,
            "mayReclaimFrom": givers[:MAX_QUEUES],
            "mayReclaimFromLeftOut": max(len(givers) - MAX_QUEUES, 0),
            "requestedForPods": pods,  # what `requested` is for
            "levels": levels,
        }

    def _givers(self, queue: Queue, demand: Demand) -> list[str]:
        """Return the queues whose pods may have to leave for a pod, or for a gang, that may take room.

        Where it would exceed a limit, those do not help that are not below it.
        """
        queues = self._queues
        limited = next((each for each in queue.path() if _exceeds_limit(each, demand)), None)
        found = []
        for name in queues.priorities.namespaces():
            theirs = queues.leaf(name)
            if theirs is None or theirs is queue or (limited is not None and limited not in theirs.path()):
                continue
            if may_take_from(
                queue,
                demand.amounts,
                {theirs: [NOTHING]},
                is_preemptible=demand.is_preemptible,
                saturation_multiplier=queues.saturation_multiplier,
            ):
                found.append(path_of(theirs))
        return sorted(found)

    def _leaves_below(self, queue: Queue) -> list[str]:
        """Return the names of the queues below one that take pods."""
        leaves = (self._queues.leaf(name) for name in self._queues.leaves)
        return sorted(leaf.name for leaf in leaves if leaf is not None and queue in leaf.path())


def _path(queue: Queue | None) -> Sequence[Queue]:
    return () if queue is None else queue.path()


def _may_reclaim(queue: Queue, demand: Demand) -> bool:
    """Return True if the queue may take room of others, and those above it let pods that are not preemptible do so."""
    if not can_reclaim(queue, demand.amounts, is_preemptible=demand.is_preemptible):
        return False
    return demand.is_preemptible or not any(_exceeds_deserved(each, demand) for each in queue.path())


def _exceeds_limit(queue: Queue, demand: Demand) -> bool:
    return any(_is_beyond_limit(share, demand.amounts.get(name, 0)) for name, share in queue.shares.items())


def _exceeds_deserved(queue: Queue, demand: Demand) -> bool:
    return any(_is_beyond_deserved(share, demand.amounts.get(name, 0)) for name, share in queue.shares.items())


def _is_beyond_limit(share: Share, requested: int) -> bool:
    return bool(requested) and not is_within(share.allocated + requested, share.limit)


def _is_beyond_deserved(share: Share, requested: int) -> bool:
    """Return whether a queue deserves too little for so much that is not preemptible."""
    return bool(requested) and not is_within(share.allocated_non_preemptible + requested, share.deserved)


def _level(queue: Queue, demand: Demand, *, is_own: bool, is_usable: bool) -> Document:
    """Return how a queue stands. `is_own`: it is the pod's. `is_usable`: the pod's queue takes pods."""
    resources = []
    for resource, share in sorted(queue.shares.items()):
        requested = demand.amounts.get(resource, 0)
        beyond = _beyond(share, requested, is_preemptible=demand.is_preemptible, is_own=is_own) if is_usable else []
        resources.append(_standing(queue, resource, share, requested, beyond))
    return {"name": path_of(queue), "resources": resources}


def _beyond(share: Share, requested: int, *, is_preemptible: bool, is_own: bool) -> list[str]:
    beyond = []
    if _is_beyond_limit(share, requested):
        beyond.append(BEYOND_LIMIT)
    if not is_preemptible and _is_beyond_deserved(share, requested):
        beyond.append(BEYOND_DESERVED)
    if is_own and share.allocated + requested > share.fair:  # also of what it does not request: it may take no room
        beyond.append(BEYOND_FAIR_SHARE)
    return beyond


def _standing(queue: Queue, resource: str, share: Share, requested: int, beyond: Sequence[str]) -> Document:
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
