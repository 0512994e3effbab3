"""The predicted usage of pods that came to nodes so recently that metric samples do not include it yet.

As in Trimaran a pod counts from the moment it came to its node until a sample is taken at least a minute later, since
agents may take that long to report it. For Trimaran all pods are new when it starts; here their conditions show when
they came, so that a restart makes no node look fuller.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from heapq import heappop, heappush

from kscheduler.framework.pod_times import came_at
from kscheduler.framework.telemetry import Telemetry
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

REPORTED_AFTER_S = 60.0


class LatePods:
    """Sums the predicted usage of recent pods by node, as a watcher of the node table.

    `use_of` returns a pod's predicted usage in milli-cores.
    """

    def __init__(self, table: NodeTable, use_of: Callable[[PodInfo], int], telemetry: Telemetry) -> None:
        self._use_of = use_of
        self._telemetry = telemetry
        self._came: list[tuple[float, str]] = []  # a heap: when, and uid
        self._counted: dict[str, tuple[float, int, int]] = {}  # pod uid -> when it came, row, milli-cores
        self.by_row: array[int] = array("q")  # milli-cores
        table.pod_watchers.append(self)
        for node in table:
            for pod in node.pods.values():
                self.pod_added(node.row, pod)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        self._forget(pod.uid)
        at, use = came_at(pod, self._telemetry), self._use_of(pod)
        if at == -math.inf:
            return
        if row >= len(self.by_row):
            self.by_row.extend([0] * (row + 1 - len(self.by_row)))
        self.by_row[row] += use
        self._counted[pod.uid] = (at, row, use)
        heappush(self._came, (at, pod.uid))

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        self._forget(pod.uid)

    def sampled(self, at: float) -> None:
        """Record the time of the newest sample: pods that came a minute or more before are included in it."""
        while self._came and self._came[0][0] <= at - REPORTED_AFTER_S:
            came, uid = heappop(self._came)
            if uid in self._counted and self._counted[uid][0] == came:
                self._forget(uid)

    def _forget(self, uid: str) -> None:
        counted = self._counted.pop(uid, None)
        if counted is not None:
            _, row, use = counted
            self.by_row[row] -= use
