"""Gangs and their pods, for the tests of this package. Pods name their gang by Coscheduling's label."""

from __future__ import annotations

from typing import Any

from kscheduler.api.pod_groups import COSCHEDULING_GROUP, POD_GROUP_LABEL
from kscheduler.gangs.doors import COSCHEDULING_DOOR, Doors
from kscheduler.gangs.gang import Gang, GangKey
from kscheduler.gangs.gang_queue import GangQueue
from kscheduler.gangs.registry import Registry
from kscheduler.queue.pod_info import Pool
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import make_pod

DOORS = Doors([COSCHEDULING_DOOR])


def key_of(name: str) -> GangKey:
    return GangKey(COSCHEDULING_GROUP, "default", name)


def gang(name: str, least: int, **fields: Any) -> Gang:
    return Gang(key=key_of(name), uid=f"uid-{name}", min_members=least, **fields)


def pod(name: str, of: str = "", *, priority: int = 0, gate: str = "", node: str = "") -> PodInfo:
    """Return a pod, of the gang with this name if one is given."""
    builder = make_pod(name).priority(priority)
    if of:
        builder = builder.label(POD_GROUP_LABEL, of)
    if gate:
        builder = builder.scheduling_gate(gate)
    if node:
        builder = builder.node(node)
    return PodInfo(builder.obj())


def parked_gangs(queue: GangQueue, registry: Registry) -> int:
    """Return how many gangs cannot be tried, since they lack pods or their object."""
    entries = [queue.stand_in(tracked.key) for tracked in registry]
    return sum(entry is not None and entry.pool is Pool.PARKED for entry in entries)
