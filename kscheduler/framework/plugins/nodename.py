"""NodeName: a pod whose spec names a node fits on that node only."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Verdicts
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeName"
REASON = "node(s) didn't match the requested node name"


class NodeName:
    name = NAME
    signs_metadata = False

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = pod.pod.spec.node_name
        return None if not wanted or wanted == node.name else unresolvable(REASON)

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        wanted = pod.pod.spec.node_name
        if wanted:
            row = table.row_of(wanted)
            verdicts.keep_only(() if row is None else (row,), code, 0)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        return NODE_ALONE

    def sign_pod(self, pod: PodInfo) -> bool | None:
        return None if pod.pod.spec.node_name else True

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        return True

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (ClusterEvent(EventResource.NODE, Action.ADD),)
