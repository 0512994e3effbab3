"""What if pods came to a node, or left it: would the pod fit then? Preemption asks this of every node it considers."""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_filters import NodeFilters
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.pod_info import PodInfo


class NodeWhatIf:
    """One node with pods of its own, and the plugins' memory of the cycle as they would have it then."""

    def __init__(self, filters: NodeFilters, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self._filters = filters
        self._state = state.clone()
        self._pod = pod
        self._node = filters.copy(node)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """Pod uid -> pod, of those on the node now."""
        return self._node.pods

    def remove(self, pod: PodInfo) -> Status | None:
        return self._filters.remove_pod(self._state, self._pod, pod, self._node)

    def add(self, pod: PodInfo) -> Status | None:
        return self._filters.add_pod(self._state, self._pod, pod, self._node)

    def fits(self) -> Status | None:
        return self._filters.judge(self._state, self._pod, self._node)
