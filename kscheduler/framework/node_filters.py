"""All Filter plugins on one node, in their per-node form: for nominated pods and for what-ifs.

A node that pods are nominated to is filtered twice: with those of at least the pod's priority, as if they were there,
since the pod must leave them their room; and without, since they may never come and the pod must not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.faults import raised, running, unsuccessful
from kscheduler.framework.interface import (
    DemandingFilterPlugin,
    FilterPlugin,
    Nominations,
    PreFilterExtensions,
    PreFilterPlugin,
)
from kscheduler.framework.status import Code, Status, code_of
from kscheduler.snapshot.node_copy import NodeCopy
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

_Call = Callable[[CycleState, PodInfo, PodInfo, NodeInfo], Status | None]


class NodeFilters:
    """The Filter plugins of one profile, and those PreFilter plugins that follow pods from and to nodes."""

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
        """Return each active filter with its demands; None if one of them has none."""
        told = {id(plugin) for plugin in self._demanding}
        if any(id(plugin) not in told and plugin.name not in state.skip_filter for plugin in self._everybody()):
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

    def _everybody(self) -> Iterator[FilterPlugin | PreFilterExtensions]:
        yield from self._filters
        yield from self._followers

    # --- moving pods ---

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeCopy) -> Status | None:
        """Add another pod to the node, in the plugins' state too. Not None: an ERROR."""
        node.add(other)
        for plugin in self._followers:
            if plugin.name not in state.skip_filter:
                fault = _follow(plugin, "AddPod", plugin.add_pod, state, pod, other, node)
                if fault is not None:
                    return fault
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeCopy) -> Status | None:
        node.remove(other)
        for plugin in self._followers:
            if plugin.name not in state.skip_filter:
                fault = _follow(plugin, "RemovePod", plugin.remove_pod, state, pod, other, node)
                if fault is not None:
                    return fault
        return None

    # --- judging ---

    def judge(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return None, the first rejection, or an ERROR; nominated pods are heeded."""
        nominated = self.yielding_to(pod, node.name)
        if nominated:
            status = self.judge_with(nominated, state, pod, node)
            if status is not None:
                return status
        return self.judge_alone(state, pod, node)

    def yielding_to(self, pod: PodInfo, node_name: str) -> list[PodInfo]:
        """Return the pods nominated to the node to which the pod must leave their room."""
        nominated = self._nominations.on(node_name)
        return [other for other in nominated if other.priority >= pod.priority and other.uid != pod.uid]

    def judge_with(
        self, nominated: Sequence[PodInfo], state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Return the verdict as if these pods were on the node."""
        state, with_nominated = state.clone(), self.copy(node)
        for other in nominated:
            fault = self.add_pod(state, pod, other, with_nominated)
            if fault is not None:
                return fault
        return self.judge_alone(state, pod, with_nominated)

    def judge_alone(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the verdict on the pods that are there."""
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


def _follow(
    plugin: PreFilterExtensions,
    point: str,
    call: _Call,
    state: CycleState,
    pod: PodInfo,
    other: PodInfo,
    node: NodeInfo,
) -> Status | None:
    try:
        status = call(state, pod, other, node)
        code = code_of(status)
    except Exception as error:
        return raised(plugin, point, error)
    return running(point, plugin, status) if status is not None and code is not Code.SUCCESS else None
