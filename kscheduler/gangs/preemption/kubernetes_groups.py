"""What kube-scheduler 1.37 evicts together: a pod, or a PodGroup whose pods are disrupted together.

Source: pkg/scheduler/framework/preemption/types.go of that release.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile

from kscheduler.api.pod_groups import MAX_TREE_DEPTH
from kscheduler.cache.cache import Cache
from kscheduler.gangs.gang import Disruption, Gang, GangKey
from kscheduler.gangs.preemption.units import Unit
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import Stage
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class KubernetesGroups:
    def __init__(self, cache: Cache, registry: Registry) -> None:
        self._cache = cache
        self._registry = registry

    def has_member_on(self, node: NodeInfo) -> bool:
        members = self._registry.members
        return any(uid in members for uid in node.pods)

    def priority_of(self, pod: PodInfo) -> int:
        """Return the priority of the topmost group above a pod, or its own if it is in no group that exists."""
        groups = self._groups_of(pod)
        return groups[-1].priority or 0 if groups else pod.priority

    def units(self, nodes: Iterable[NodeInfo], below: int) -> list[Unit]:
        """Return what may be evicted below a priority, with at least a pod on one of these nodes."""
        units: list[Unit] = []
        seen: set[GangKey] = set()
        for node in nodes:
            for pod in node.pods.values():
                member = self._registry.members.get(pod.uid)
                key = None if member is None else member.tracked.key
                priority = self.priority_of(pod)
                if priority >= below:
                    continue
                whole = [group for group in self._groups_of(pod) if group.disruption is Disruption.ALL]
                if not whole:
                    units.append(Unit((pod,), priority, key))
                elif whole[-1].key not in seen:
                    seen.add(whole[-1].key)
                    units.append(Unit(self._scheduled(whole[-1].key), priority, whole[-1].key))
        return units

    def _groups_of(self, pod: PodInfo) -> list[Gang]:
        """Return the groups that a pod is in, upwards, as far as they exist."""
        member = self._registry.members.get(pod.uid)
        above = () if member is None else member.tracked.lineage
        known = takewhile(lambda gang: gang is not None, (tracked.gang for tracked in above))
        return [gang for gang in islice(known, MAX_TREE_DEPTH) if gang is not None]

    def _scheduled(self, key: GangKey) -> tuple[PodInfo, ...]:
        """Return the members of a group that have a node."""
        tracked = self._registry.get(key)
        members = () if tracked is None else tracked.members.items()
        states = [self._cache.get(uid) for uid, member in members if member.stage in (Stage.ASSUMED, Stage.BOUND)]
        return tuple(state.pod for state in states if state is not None)
