"""What a plan has placed so far, and how to take it back.

A placed member is assumed in the cache, so that the next one sees it. Nothing else runs between a plan's first
placement and its end, so that nobody else has seen what is taken back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kscheduler.cache.cache import Cache
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.runtime import Framework
from kscheduler.queue.pod_info import QueuedPodInfo
from kscheduler.snapshot.pod_info import PodInfo

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A member on the node that was chosen for it."""

    queued: QueuedPodInfo
    node_name: str
    framework: Framework
    feasible: int  # on how many nodes it fitted
    state: CycleState | None = None  # of its cycle, if Reserve plugins have run; None: none of them has a say
    review: object | None = None  # what its search found out about the nodes; None: nobody asked


class UndoLog:
    def __init__(self, cache: Cache, nominations: Nominations | None = None) -> None:
        """`nominations`: those of waiting pods; a member that is placed must not count as nominated as well."""
        self._cache = cache
        self._nominations = nominations
        # Pod uid of a member -> the member, and the node to which it was nominated.
        self._lifted: dict[str, tuple[PodInfo, str]] = {}
        self._placed: list[Placed] = []
        self.undone: Sequence[Placed] = ()  # what was placed when all of it was taken back

    def __len__(self) -> int:
        return len(self._placed)

    def __iter__(self) -> Iterator[Placed]:
        """Iterate over what was placed, in order."""
        return iter(self._placed)

    def add(self, placed: Sequence[Placed]) -> None:
        """Take members that are assumed now."""
        self._placed += placed
        if self._nominations is not None and self._nominations.by_pod:
            for each in placed:
                self._lift(self._nominations, each.queued.pod_info)

    def lift(self, members: Sequence[QueuedPodInfo]) -> None:
        """Remove the nominations of members that are to be placed, until `undo`."""
        if self._nominations is not None and self._nominations.by_pod:
            for queued in members:
                self._lift(self._nominations, queued.pod_info)

    def _lift(self, nominations: Nominations, pod: PodInfo) -> None:
        """Remove the nomination of a member, if it has one."""
        node_name = nominations.node_of(pod.uid)
        if node_name:
            nominations.remove(pod.uid)
            self._lifted[pod.uid] = pod, node_name

    def undo(self) -> None:
        """Unreserve and forget all members, the last one first. After it the cache is as before the plan."""
        self.undone = self._placed[:] or self.undone
        while self._placed:
            self.take_back(self._placed[-1])
        for uid in list(self._lifted):
            self._restore(uid)

    def take_back(self, placed: Placed) -> None:
        """Unreserve and forget one member."""
        if placed is self._placed[-1]:
            self._placed.pop()
        else:
            self._placed.remove(placed)
        pod = placed.queued.pod_info
        if placed.state is not None:
            for fault in placed.framework.run_unreserve(placed.state, pod, placed.node_name):
                log.error("unreserve plugin failed", extra={"pod": pod.key, "err": fault.message})
        self._cache.forget(pod.uid)
        self._restore(pod.uid)

    def _restore(self, uid: str) -> None:
        """Nominate a member again whose nomination was removed."""
        lifted = self._lifted.pop(uid, None)
        if lifted is not None and self._nominations is not None:
            self._nominations.nominate(*lifted)
