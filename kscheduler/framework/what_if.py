"""Adds pods to, and removes them from, a copy of a node, to test whether a pod would fit. Used by preemption."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_filters import NodeFilters
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class NodeWhatIf:
    """A copy of one node to add and remove pods, with a copy of the plugins' cycle state that is updated with them."""

    def __init__(self, filters: NodeFilters, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self._filters = filters
        self._state = state.clone()
        self._pod = pod
        self._node = filters.copy(node)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods on the copy of the node, by uid."""
        return self._node.pods

    def remove(self, pod: PodInfo) -> Status | None:
        return self._filters.remove_pod(self._state, self._pod, pod, self._node)

    def add(self, pod: PodInfo) -> Status | None:
        return self._filters.add_pod(self._state, self._pod, pod, self._node)

    def fits(self) -> Status | None:
        return self._filters.judge(self._state, self._pod, self._node)
