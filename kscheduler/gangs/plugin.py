"""GangScheduling: holds the pods of a gang back until its PodGroup exists, and enough pods of it do.

Only where each pod of a gang is queued by itself; elsewhere the queue parks a gang as a whole. The texts and the
registered events are kube-scheduler's of each release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscheduler.api.objects import Pod
from kscheduler.api.pod_groups import PodGroup
from kscheduler.config.releases import Release
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Grouping, Registration
from kscheduler.framework.status import Status, unresolvable
from kscheduler.gangs.gang import GangKey
from kscheduler.gangs.registry import Lack, Registry
from kscheduler.gangs.texts import upstream_lack
from kscheduler.snapshot.pod_info import PodInfo

NAME = "GangScheduling"


class GangScheduling:
    name = NAME

    def __init__(self, registry: Registry, key_of: Callable[[Pod], GangKey | None], release: Release) -> None:
        """`key_of` returns the gang that a pod names, or None."""
        self._registry = registry
        self._key_of = key_of
        self._release = release
        self._grouping = Grouping(lambda pod: key_of(pod.pod) or ())

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        key = self._key_of(pod.pod)
        if key is None:
            return None
        tracked = self._registry.get(key)
        if tracked is None:
            return unresolvable(f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue').of(NAME)
        if tracked.lack in (None, Lack.GATES, Lack.PARENT):
            return None
        return unresolvable(upstream_lack(tracked)).of(NAME)

    def events_to_register(self) -> Sequence[Registration]:
        pods = (
            (EventResource.UNSCHEDULED_POD, EventResource.ASSIGNED_POD)
            if self._release.splits_pod_events
            else (EventResource.POD,)
        )
        added = [
            Registration(ClusterEvent(resource, Action.ADD), self._is_of_same_gang, self._grouping)
            for resource in (*pods, EventResource.POD_GROUP)
        ]
        if not self._release.splits_pod_events:  # the minimum cannot change
            return added
        updated = ClusterEvent(EventResource.POD_GROUP, Action.UPDATE)
        return [*added, Registration(updated, self._has_lower_minimum, self._grouping)]

    def _is_of_same_gang(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if what was added is a pod of the waiting pod's gang, or its PodGroup."""
        key = self._key_of(waiting)
        if isinstance(new, Pod):
            return key is not None and self._key_of(new) == key
        if isinstance(new, PodGroup):
            return key is not None and (key.namespace, key.name) == (new.metadata.namespace, new.metadata.name)
        return True

    def _has_lower_minimum(self, waiting: Pod, old: object, new: object) -> bool:
        """Return True if the PodGroup is the waiting pod's, and needs fewer pods than before."""
        if not isinstance(old, PodGroup) or not isinstance(new, PodGroup):
            return True
        before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
        is_lower = before is not None and after is not None and after.min_count < before.min_count
        return is_lower and self._is_of_same_gang(waiting, old, new)
