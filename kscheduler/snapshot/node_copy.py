"""A copy of a node on which a dry run adds and removes pods; the node table and its indexes do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from kscheduler._fast import PodRequest
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


@final
class NodeCopy(NodeInfo):
    """A NodeInfo that reads the original's row and stores only the differences; valid until the row changes."""

    __slots__ = ("_more", "_more_cpu", "_more_memory", "_request_of")

    def __init__(self, original: NodeInfo, request_of: Callable[[PodInfo], PodRequest]) -> None:
        """Copy a node. `request_of` is `NodeTable.request_of`: pod -> its compiled request."""
        super().__init__(
            original._columns,
            original._resources,
            original.row,
            original.node,
            original.node_class,
            original.allocatable,
        )
        self._request_of = request_of
        self.pods = dict(original.pods)
        self._more: dict[int, int] = {}  # resource column -> how much more is requested here than in the row
        self._more_cpu = self._more_memory = 0  # as `_more`, for the amounts that scoring counts
        if isinstance(original, NodeCopy):
            self._more.update(original._more)
            self._more_cpu, self._more_memory = original._more_cpu, original._more_memory

    def add(self, pod: PodInfo) -> None:
        if pod.uid not in self.pods:
            self._count(pod, 1)
        self.pods[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod from the copy. Raises KeyError for a pod that is not on it."""
        self._count(self.pods.pop(pod.uid), -1)

    def _count(self, pod: PodInfo, by: int) -> None:
        request = self._request_of(pod)
        for column, amount in request.entries:
            self._more[column] = self._more.get(column, 0) + by * amount
        self._more_cpu += by * request.non_zero_cpu
        self._more_memory += by * request.non_zero_memory

    def requested_of(self, column: int) -> int:
        return super().requested_of(column) + self._more.get(column, 0)

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        cpu, memory = super().non_zero_requested
        return cpu + self._more_cpu, memory + self._more_memory
