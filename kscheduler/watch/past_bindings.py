"""Pods that another replica bound shortly before this one began to schedule, for their Scheduled Events.

A leader that is killed takes the Events it had not written with it. A standby can write those of bindings it saw:
the names of Scheduled Events follow from the pods' uids, so existing ones stay as they are. A replica that has
just started saw no binding; it takes the pods that were created within the same time and have a node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from kscheduler.api.objects import Pod
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock

# A lease of 15 s that runs out, and the minute for which a burst's Events may lag behind its bindings.
WINDOW_S = 120.0
MAX_PODS = 20_000  # the newest; some 100 bytes each
_STATIC = "kubernetes.io/config.mirror"  # annotates pods that no scheduler has placed


class PastBindings:
    """Collects until `take` is called. After that this replica writes Events for its own bindings."""

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self._clock = clock
        self._collects = enabled
        self._bound: OrderedDict[str, tuple[str, float]] = OrderedDict()  # uid -> namespace/name, Unix seconds

    def __len__(self) -> int:
        return len(self._bound)

    def seen(self, pod: Pod) -> None:
        """Note a waiting pod of ours that has a node now."""
        if self._collects:
            self._keep(pod, self._clock.wall())

    def found(self, pod: Pod) -> None:
        """Note a pod of ours that had its node when it was first seen."""
        created = pod.metadata.creation_timestamp
        if not self._collects or created is None or _STATIC in (pod.metadata.annotations or {}):
            return
        now = self._clock.wall()
        if created >= rfc3339(now - WINDOW_S):  # such texts sort by time
            self._keep(pod, now)

    def forget(self, uid: str) -> None:
        """Drop a deleted pod."""
        self._bound.pop(uid, None)

    def take(self) -> Iterator[tuple[str, str, float]]:
        """Yield uid, namespace/name and Unix seconds of each pod bound within the window, oldest first."""
        self._collects = False
        since = self._clock.wall() - WINDOW_S
        bound, self._bound = self._bound, OrderedDict()
        return ((uid, key, at) for uid, (key, at) in bound.items() if at >= since)

    def _keep(self, pod: Pod, at: float) -> None:
        self._bound[pod.metadata.uid] = (pod.key, at)
        oldest = next(iter(self._bound.values()))[1]
        if len(self._bound) > MAX_PODS or oldest < at - WINDOW_S:
            self._bound.popitem(last=False)
