"""Keeps the registry's stages of members up to date with the cache: assumed, bound, gone.

The cache reports each pod that it begins or ceases to count. A pod without a node in its spec is assumed; when it is no
longer counted, its decision was given back, and it returns to the queue unless it was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.api.objects import Pod
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Registry
from kscheduler.gangs.tracked_gang import Stage


class MemberStages:
    """Follows the cache (`cache.PodFollower`).

    `will_return(uid)`: whether a pod is in flight and was not deleted. `changed(key)` is called for each gang of which
    a member has moved.
    """

    def __init__(
        self, registry: Registry, *, will_return: Callable[[str], bool], changed: Callable[[GangKey], None]
    ) -> None:
        self._registry = registry
        self._will_return = will_return
        self._changed = changed

    def pod_added(self, pod: Pod) -> None:
        stage = Stage.BOUND if pod.spec.node_name else Stage.ASSUMED
        for tracked in self._registry.set_member(pod, stage):
            if tracked is not None:
                self._changed(tracked.key)

    def pods_added(self, pods: Sequence[Pod]) -> None:
        keys: dict[GangKey, None] = {}
        for pod in pods:
            stage = Stage.BOUND if pod.spec.node_name else Stage.ASSUMED
            keys.update((each.key, None) for each in self._registry.set_member(pod, stage) if each is not None)
        for key in keys:
            self._changed(key)

    def pod_changed(self, old: Pod, new: Pod) -> None:
        member = self._registry.members.get(new.metadata.uid)
        if member is None or member.stage is not Stage.BOUND or old.metadata.labels is not new.metadata.labels:
            self.pod_added(new)
        else:
            member.pod = new

    def pod_removed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name or uid not in self._registry.members:
            tracked = self._registry.remove_member(uid)
        elif self._will_return(uid):
            tracked = self._registry.move(uid, Stage.IN_FLIGHT)
        else:
            tracked = self._registry.remove_member(uid)
        if tracked is not None:
            self._changed(tracked.key)
