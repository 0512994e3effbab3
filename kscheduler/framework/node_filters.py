"""Runs all Filter plugins on one node in their per-node form: for nominated pods and for preemption's trials.

A node to which pods are nominated is filtered twice, as in kube-scheduler: with the nominated pods of at least the
pod's priority counted there, since the pod must leave them their room; and without, since they may never come and the
pod must not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.faults import raised, running, unsuccessful
from kscheduler.framework.interface import (
    DemandingFilterPlugin,
    FilterPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
)
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.status import Code, Status, code_of
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo


class NodeFilters:
    """The Filter plugins of one profile, and those PreFilter plugins that have PreFilterExtensions."""

    def __init__(
        self,
        table: NodeTable,
        nominations: Nominations,
        pre_filter: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
    ) -> None:
        self._table = table
        self._nominations = nominations
        self._followers = [plugin for plugin in pre_filter if isinstance(plugin, PreFilterExtensions)]
        self._filters = filters
        self._demanding = [plugin for plugin in filters if isinstance(plugin, DemandingFilterPlugin)]

    def copy(self, node: NodeInfo) -> NodeCopy:
        return NodeCopy(node, self._table.request_of)

    def demands(self, state: CycleState, pod: PodInfo) -> list[tuple[DemandingFilterPlugin, Demands]] | None:
        """Return each filter active in the cycle with its requirements as numbers; None if one cannot state them."""
        can_state = {id(plugin) for plugin in self._demanding}
        others = (plugin for plugin in (*self._filters, *self._followers) if id(plugin) not in can_state)
        if any(plugin.name not in state.skip_filter for plugin in others):
            return None
        found = []
        for plugin in self._demanding:
            if plugin.name in state.skip_filter:
                continue
            demands = plugin.demands(state, pod)
            if demands is None:
                return None
            found.append((plugin, demands))
        return found

    # --- moving pods ---

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeCopy) -> Status | None:
        """Add another pod to a copy of a node and to the plugins' cycle state. Returns None, or an ERROR."""
        node.add(other)
        return self._follow("AddPod", lambda plugin: plugin.add_pod(state, pod, other, node), state)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeCopy) -> Status | None:
        node.remove(other)
        return self._follow("RemovePod", lambda plugin: plugin.remove_pod(state, pod, other, node), state)

    def leave_elsewhere(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Let the plugins' cycle state follow that another pod leaves a node, which itself stays as it is."""
        return self._follow("RemovePod", lambda plugin: plugin.remove_pod(state, pod, other, node), state)

    def return_elsewhere(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        return self._follow("AddPod", lambda plugin: plugin.add_pod(state, pod, other, node), state)

    def _follow(
        self, point: str, move: Callable[[PreFilterExtensions], Status | None], state: CycleState
    ) -> Status | None:
        for plugin in self._followers:
            if plugin.name in state.skip_filter:
                continue
            try:
                status = move(plugin)
                code = code_of(status)
            except Exception as error:
                return raised(plugin, point, error)
            if status is not None and code is not Code.SUCCESS:
                return running(point, plugin, status)
        return None

    # --- filtering ---

    def judge(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Run the filters on a node, with and without nominated pods.

        Returns None, the first rejection, or an ERROR.
        """
        nominated = self.yielding_to(pod, node.name)
        if nominated:
            status = self.judge_with(nominated, state, pod, node)
            if status is not None:
                return status
        return self.judge_alone(state, pod, node)

    def yielding_to(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """Return the pods nominated to the node for which the pod must leave room: those of at least its priority."""
        nominated = self._nominations.on(node_name)
        return [other for other in nominated if other.priority >= pod.priority and other.uid != pod.uid]

    def judge_with(
        self, nominated: Sequence[PodInfo], state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Run the filters as if these pods were on the node. Returns None, the first rejection, or an ERROR."""
        state, with_nominated = state.clone(), self.copy(node)
        for other in nominated:
            fault = self.add_pod(state, pod, other, with_nominated)
            if fault is not None:
                return fault
        return self.judge_alone(state, pod, with_nominated)

    def judge_alone(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Run the filters on the node as it is. Returns None, the first rejection, or an ERROR."""
        for plugin in self._filters:
            if plugin.name in state.skip_filter:
                continue
            try:
                status = plugin.filter(state, pod, node)
                code = code_of(status)
            except Exception as error:
                return raised(plugin, "Filter", error)
            if status is not None and code is not Code.SUCCESS:
                return unsuccessful("Filter", plugin, status)
        return None


class NodeWhatIf:
    """A copy of one node on which pods are added and removed on trial, and with them the plugins' cycle state."""

    def __init__(self, filters: NodeFilters, state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        self._filters = filters
        self._state = state.clone()
        self._pod = pod
        self._node = filters.copy(node)

    @property
    def state(self) -> CycleState:
        """The copy of the cycle state in which the plugins' PreFilterExtensions follow the moves."""
        return self._state

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods on the copy of the node, by uid."""
        return self._node.pods

    def remove(self, pod: PodInfo) -> Status | None:
        return self._filters.remove_pod(self._state, self._pod, pod, self._node)

    def add(self, pod: PodInfo) -> Status | None:
        return self._filters.add_pod(self._state, self._pod, pod, self._node)

    def remove_elsewhere(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self._filters.leave_elsewhere(self._state, self._pod, pod, node)

    def add_elsewhere(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        return self._filters.return_elsewhere(self._state, self._pod, pod, node)

    def fits(self) -> Status | None:
        return self._filters.judge(self._state, self._pod, self._node)
