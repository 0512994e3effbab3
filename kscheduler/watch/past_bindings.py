"""Pods that another replica bound shortly before this one began to schedule, for their Scheduled Events.

The Events that a killed leader had not written yet are lost. A new leader writes those of the bindings that it saw as
a standby: names of Scheduled Events follow from the pods' uids, so Events that exist are left alone. A replica that has
just started saw no binding; it takes the bound pods that were created within the window.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from kscheduler.api.objects import Pod
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock

# Covers the 15 s after which a Lease expires, and the minute by which Events may lag behind a burst of bindings.
WINDOW_S = 120.0
MAX_PODS = 20_000  # the newest are kept; some 100 bytes each
_STATIC = "kubernetes.io/config.mirror"  # annotates static pods, which no scheduler has placed


class PastBindings:
    """Collects bindings of other replicas until `take` is called, when this replica begins to schedule."""

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self._clock = clock
        self._collects = enabled
        self._bound: OrderedDict[str, tuple[str, float]] = OrderedDict()  # uid -> namespace/name, Unix seconds

    def seen(self, pod: Pod) -> None:
        """Record a pod that the watch showed waiting before, and shows bound now."""
        if self._collects:
            self._keep(pod, self._clock.wall())

    def found(self, pod: Pod) -> None:
        """Record a pod that was already bound when the watch first showed it, if it was created within the window."""
        created = pod.metadata.creation_timestamp
        if not self._collects or created is None or _STATIC in (pod.metadata.annotations or {}):
            return
        now = self._clock.wall()
        if created >= rfc3339(now - WINDOW_S):  # RFC 3339 texts sort by time
            self._keep(pod, now)

    def forget(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._bound.pop(uid, None)

    def take(self) -> Iterator[tuple[str, str, float]]:
        """Stop collecting; return uid, namespace/name, Unix seconds of pods bound within the window, oldest first."""
        self._collects = False
        since = self._clock.wall() - WINDOW_S
        bound, self._bound = self._bound, OrderedDict()
        return ((uid, key, at) for uid, (key, at) in bound.items() if at >= since)

    def _keep(self, pod: Pod, at: float) -> None:
        self._bound[pod.metadata.uid] = (pod.key, at)
        oldest = next(iter(self._bound.values()))[1]
        if len(self._bound) > MAX_PODS or oldest < at - WINDOW_S:
            self._bound.popitem(last=False)
