"""NodeUnschedulable: a cordoned node takes only pods that tolerate being there."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Verdicts, filter_profiles
from kscheduler.api.objects import Taint
from kscheduler.api.tolerations import tolerates
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource
from kscheduler.framework.interface import Handle
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeUnschedulable"
REASON = "node(s) were unschedulable"

# What `kubectl cordon` would have put on the node as a taint; tolerating it means tolerating the cordon.
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._verdicts = handle.table.profiles.verdict_memo()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable(REASON) if node.profile.unschedulable and not _tolerates_cordon(pod) else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        if not _tolerates_cordon(pod):
            by_profile = self._verdicts.answers(NAME, lambda profile: int(profile.unschedulable))
            filter_profiles(table.columns, verdicts, by_profile, code)

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    def events_to_register(self) -> Sequence[ClusterEvent]:
        return (
            ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
            ClusterEvent(EventResource.POD, Action.UPDATE_POD_TOLERATION),
        )


def _tolerates_cordon(pod: PodInfo) -> bool:
    return any(tolerates(toleration, CORDON) for toleration in pod.pod.spec.tolerations or ())
