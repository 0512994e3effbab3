"""Imagines pods added to or removed from a node, and asks whether a pod would fit then. Used by preemption."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_filters import NodeFilters
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class NodeWhatIf:
    """One node with imagined pods, and a copy of the plugins' cycle state that follows them."""

    def __init__(self, filters: NodeFilters, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self._filters = filters
        self._state = state.clone()
        self._pod = pod
        self._node = filters.copy(node)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods on the imagined node, by uid."""
        return self._node.pods

    def remove(self, pod: PodInfo) -> Status | None:
        return self._filters.remove_pod(self._state, self._pod, pod, self._node)

    def add(self, pod: PodInfo) -> Status | None:
        return self._filters.add_pod(self._state, self._pod, pod, self._node)

    def fits(self) -> Status | None:
        return self._filters.judge(self._state, self._pod, self._node)
