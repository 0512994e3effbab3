"""NodeUnschedulable: a cordoned node accepts only pods that tolerate the taint `node.kubernetes.io/unschedulable`."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler._fast import Verdicts, filter_node_classes
from kscheduler.api.objects import Node, Pod, Taint
from kscheduler.api.tolerations import tolerates
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Registration
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
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._verdicts = handle.table.node_classes.verdict_memo()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable(REASON) if node.node_class.unschedulable and not _tolerates_cordon(pod) else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        if not _tolerates_cordon(pod):
            filter_node_classes(table.columns, verdicts, self._by_node_class(), code)

    def _by_node_class(self) -> bytearray:
        return self._verdicts.answers(NAME, lambda node_class: int(node_class.unschedulable))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        return NODE_ALONE

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> bool:
        return _tolerates_cordon(pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        if not _tolerates_cordon(pod):
            draft.filter_node_classes(self._by_node_class())
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        of_pods = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        return (
            Registration(of_nodes, is_schedulable_after_node_change, ONE_GROUP),
            Registration(of_pods, is_schedulable_after_toleration_change, ONE_GROUP),
        )


def is_schedulable_after_node_change(waiting: Pod, old: object, new: object) -> bool:
    """Return True for a new node that is not cordoned, or one that was uncordoned."""
    if not isinstance(new, Node):
        return True
    return not new.spec.unschedulable and (not isinstance(old, Node) or old.spec.unschedulable)


def is_schedulable_after_toleration_change(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the waiting pod itself now tolerates cordoned nodes, which it did not when it was rejected."""
    if not isinstance(new, Pod):
        return True
    return new.metadata.uid == waiting.metadata.uid and _tolerates(new)


def _tolerates_cordon(pod: PodInfo) -> bool:
    return _tolerates(pod.pod)


def _tolerates(pod: Pod) -> bool:
    return any(tolerates(toleration, CORDON) for toleration in pod.spec.tolerations or ())
