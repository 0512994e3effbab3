"""Pods that another replica bound shortly before this one began to schedule, for their Scheduled Events.

The Events that a killed leader had not written yet are lost. A new leader writes the Events of the bindings that it saw
as a standby: the names of Scheduled Events follow from the pods' uids, so existing Events are left alone. A replica
that has just started saw no binding; it takes the bound pods that were created within a time window before. A binding
may even come after the new leader has begun: an apiserver under load may carry out a request of the old one late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from kscheduler.api.objects import Pod
from kscheduler.client.times import rfc3339
from kscheduler.clock import Clock

# Covers the 15 s after which a Lease expires, and the minute by which Events may lag behind a burst of bindings.
WINDOW_S = 120.0
MAX_PODS = 20_000  # the newest are kept; some 100 bytes each
_STATIC = "kubernetes.io/config.mirror"  # annotates static pods, which no scheduler has placed


class PastBindings:
    """Collects bindings by other replicas until `take` is called, when this replica begins to schedule.

    After that, for the length of the time window, each further binding is reported at once.
    """

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self._clock = clock
        self.is_open = enabled  # False: bindings of others are of no interest, or not any more
        self._on_late: Callable[[Pod, float], None] | None = None  # None until `take`
        self._open_until = 0.0  # Unix seconds, once `take` was called
        self._bound: OrderedDict[str, tuple[str, float]] = OrderedDict()  # uid -> namespace/name, Unix seconds

    def seen(self, pod: Pod, assumed_on: str = "") -> None:
        """Record a pod that the watch showed waiting before, and shows bound now.

        `assumed_on` is the node that this replica itself chose for it; "" if none: its own bindings are not recorded.
        """
        if self.is_open and assumed_on != pod.spec.node_name:
            self._keep(pod, self._clock.wall())

    def found(self, pod: Pod) -> None:
        """Record a pod that was already bound when the watch first showed it, if it was created recently enough."""
        created = pod.metadata.creation_timestamp
        if not self.is_open or created is None or _STATIC in (pod.metadata.annotations or {}):
            return
        now = self._clock.wall()
        if created >= rfc3339(now - WINDOW_S):  # RFC 3339 texts sort by time
            self._keep(pod, now)

    def forget(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._bound.pop(uid, None)

    def take(self, on_late: Callable[[Pod, float], None]) -> Iterator[tuple[str, str, float]]:
        """Stop collecting; return (uid, namespace/name, Unix seconds) of pods bound within the window, oldest first.

        For the length of the window after that, `on_late` is called with each further pod and its Unix seconds.
        """
        now = self._clock.wall()
        self._on_late, self._open_until = on_late, now + WINDOW_S
        since = now - WINDOW_S
        bound, self._bound = self._bound, OrderedDict()
        return ((uid, key, at) for uid, (key, at) in bound.items() if at >= since)

    def _keep(self, pod: Pod, at: float) -> None:
        if self._on_late is not None:
            self.is_open = at < self._open_until
            if self.is_open:
                self._on_late(pod, at)
            return
        self._bound[pod.metadata.uid] = (pod.key, at)
        oldest = next(iter(self._bound.values()))[1]
        if len(self._bound) > MAX_PODS or oldest < at - WINDOW_S:
            self._bound.popitem(last=False)
