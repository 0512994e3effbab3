"""What kube-scheduler 1.37 evicts together: a pod, or a PodGroup whose pods are disrupted together.

Source: pkg/scheduler/framework/preemption/types.go of that release.
"""

from __future__ import annotations

from collections.abc import Iterable

from kscheduler.cache.cache import Cache
from kscheduler.gangs.gang import Disruption, Gang, GangKey
from kscheduler.gangs.preemption.units import Unit
from kscheduler.gangs.registry import Registry, Stage
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
        """Return the priority of a pod's group, or its own if it is in no group that exists."""
        group = self._group_of(pod)
        return pod.priority if group is None else group.priority or 0

    def units(self, nodes: Iterable[NodeInfo], below: int) -> list[Unit]:
        """Return what may be evicted below a priority, with at least a pod on one of these nodes."""
        units: list[Unit] = []
        seen: set[GangKey] = set()
        for node in nodes:
            for pod in node.pods.values():
                member = self._registry.members.get(pod.uid)
                key = None if member is None else member.tracked.key
                group = self._group_of(pod)
                priority = self.priority_of(pod)
                if priority >= below:
                    continue
                if group is None or group.disruption is not Disruption.ALL:
                    units.append(Unit((pod,), priority, key))
                elif group.key not in seen:
                    seen.add(group.key)
                    units.append(Unit(self._scheduled(group.key), priority, key))
        return units

    def _group_of(self, pod: PodInfo) -> Gang | None:
        member = self._registry.members.get(pod.uid)
        return None if member is None else member.tracked.gang

    def _scheduled(self, key: GangKey) -> tuple[PodInfo, ...]:
        """Return the members of a group that have a node."""
        tracked = self._registry.get(key)
        members = () if tracked is None else tracked.members.items()
        states = [self._cache.get(uid) for uid, member in members if member.stage in (Stage.ASSUMED, Stage.BOUND)]
        return tuple(state.pod for state in states if state is not None)
