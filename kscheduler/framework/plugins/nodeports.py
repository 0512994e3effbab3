"""NodePorts: two pods cannot hold one host port of one address on one node."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Verdicts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.interface import Handle, PreFilterResult
from kscheduler.framework.status import SKIP, Status, unschedulable
from kscheduler.snapshot.host_ports import clashes
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodePorts"
REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._taken = handle.table.ports

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[PreFilterResult | None, Status | None]:
        return None, None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        taken = [port for other in node.pods.values() for port in other.host_ports]
        clash = any(clashes(port, other) for port in pod.host_ports for other in taken)
        return unschedulable(REASON) if clash else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        verdicts.reject_rows(self._taken.conflicting_rows(pod.host_ports), code, 0)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unschedulable(REASON)

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (
            ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE),
            ClusterEvent(EventResource.NODE, Action.ADD),
        )
