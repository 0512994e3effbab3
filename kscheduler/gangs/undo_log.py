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

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A member on the node that was chosen for it."""

    queued: QueuedPodInfo
    node_name: str
    framework: Framework
    feasible: int  # on how many nodes it fitted
    state: CycleState | None = None  # of its cycle, if Reserve plugins have run; None: none of them has a say


class UndoLog:
    def __init__(self, cache: Cache, nominations: Nominations | None = None) -> None:
        """`nominations`: those of waiting pods; a member that is placed must not count as nominated as well."""
        self._cache = cache
        self._nominations = nominations
        self._lifted: dict[str, str] = {}  # pod uid of a placed member -> the node to which it was nominated
        self._placed: list[Placed] = []

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
                self._lift(self._nominations, each.queued.pod_info.uid)

    def _lift(self, nominations: Nominations, uid: str) -> None:
        """Remove the nomination of a member that is placed, if it has one."""
        node_name = nominations.node_of(uid)
        if node_name:
            nominations.remove(uid)
            self._lifted[uid] = node_name

    def undo(self) -> None:
        """Unreserve and forget all members, the last one first. After it the cache is as before the plan."""
        while self._placed:
            self.take_back(self._placed[-1])

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
        node_name = self._lifted.pop(pod.uid, None)
        if node_name is not None and self._nominations is not None:
            self._nominations.nominate(pod, node_name)
