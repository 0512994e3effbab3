"""How many groups of pods are in the queue, for kube-scheduler's metrics of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.stand_in import StandIn
from kscheduler.queue.pod_info import Pool, QueuedPodInfo
from kscheduler.queue.scheduling_queue import QueueCounts

_METRIC_POOLS = {Pool.PARKED: Pool.GATED, Pool.ERROR_BACKOFF: Pool.BACKOFF}


class QueuedGroups(NamedTuple):
    """The groups in the queue. Each is one entity, whereas a pod without a group is an entity by itself."""

    groups: QueueCounts  # by pool; one that lacks pods, or of which a pod is gated, counts as gated
    pods: QueueCounts  # how many of the pods that the queue counts in each pool belong to groups
    incomplete: int  # pods among those that count as gated, whose PodGroup does not exist
    pending: int  # pods among those that count as gated, which came while their group was being decided
    incoming: Mapping[tuple[str, str], Incoming]  # by pool and the event that added them


class Incoming(NamedTuple):
    """What was added to a pool since the start."""

    groups: int
    pods: int  # of these groups, and those that were gated one by one


def queued_groups(
    gangs: Mapping[GangKey, StandIn],
    gated: Iterable[QueuedPodInfo],
    registry: Registry,
    incoming: Mapping[tuple[str, str], Incoming],
) -> QueuedGroups:
    """Count the groups of a queue: the entries that hold pods or are in flight, and pods that PreEnqueue has gated."""
    groups, pods = Counter[Pool](), Counter[Pool]()
    incomplete = pending = 0
    gated_ones = set()  # gangs of which only gated members wait
    for qpi in gated:
        member = registry.members.get(qpi.uid)
        if member is None:
            continue
        pods[Pool.GATED] += 1
        entry = member.tracked.entry
        if entry.is_incomplete:
            incomplete += 1
        elif entry.key not in gangs:
            gated_ones.add(entry.key)
    groups[Pool.GATED] += len(gated_ones)
    for key, stand_in in gangs.items():
        pending += len(stand_in.arrivals)
        if stand_in.pool is Pool.IN_FLIGHT:
            continue
        pool = _METRIC_POOLS.get(stand_in.pool, stand_in.pool)
        pods[pool] += len(stand_in.members)
        tracked = registry.get(key)
        if tracked is None or tracked.is_incomplete:
            incomplete += len(stand_in.members)
        else:
            groups[pool] += 1
    pods[Pool.GATED] += pending
    by_pool = (Pool.ACTIVE, Pool.BACKOFF, Pool.UNSCHEDULABLE, Pool.GATED)
    return QueuedGroups(
        QueueCounts(*(groups[pool] for pool in by_pool)),
        QueueCounts(*(pods[pool] for pool in by_pool)),
        incomplete,
        pending,
        incoming,
    )
