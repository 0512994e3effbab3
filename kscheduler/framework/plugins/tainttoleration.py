"""TaintToleration: NoSchedule and NoExecute taints keep pods off; PreferNoSchedule taints are avoided.

Score: the number of PreferNoSchedule taints a pod does not tolerate, normalised so that none is 100.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence

from kscheduler._fast import Scores, Verdicts, filter_node_classes, normalize, score_node_classes
from kscheduler.api.objects import Node, Pod, Toleration
from kscheduler.api.tolerations import count_intolerable_prefer_no_schedule, find_untolerated
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import NODE_ALONE, Demands
from kscheduler.framework.events import ONE_GROUP, Action, ClusterEvent, EventResource, Grouping, Registration
from kscheduler.framework.interface import Handle
from kscheduler.framework.narrowing import Narrowing, Options
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.status import Status, unresolvable
from kscheduler.snapshot.node_classes import KEEP_OFF
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"  # 1.36 no longer names the taint


class TaintToleration:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle) -> None:
        self._verdicts = handle.table.node_classes.verdict_memo()
        self._counts = handle.table.node_classes.value_memo()

    # --- filter ---

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unresolvable(REASON) if node.node_class.keeps_off(_tolerations(pod)) else None

    def filter_table(self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, code: int) -> None:
        filter_node_classes(table.columns, verdicts, self._kept_off(_tolerations(pod)), code)

    def _kept_off(self, tolerations: tuple[Toleration, ...]) -> bytearray:
        return self._verdicts.answers(tolerations, lambda node_class: int(node_class.keeps_off(tolerations)))

    def explain(self, state: CycleState, pod: PodInfo, detail: int) -> Status:
        return unresolvable(REASON)

    def demands(self, state: CycleState, pod: PodInfo) -> Demands:
        return NODE_ALONE

    # --- score ---

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return count_intolerable_prefer_no_schedule(node.node_class.taints, _tolerations(pod)), None

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> Status | None:
        default_normalize(scores, reverse=True)
        return None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        score_node_classes(table.columns, verdicts, scores, self._intolerable(_tolerations(pod)))

    def _intolerable(self, tolerations: tuple[Toleration, ...]) -> array[int]:
        return self._counts.answers(
            tolerations, lambda node_class: count_intolerable_prefer_no_schedule(node_class.taints, tolerations)
        )

    def normalize_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        normalize(verdicts, scores, True)

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> tuple[Toleration, ...]:
        return _tolerations(pod)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        tolerations = _tolerations(pod)
        draft.filter_node_classes(self._kept_off(tolerations))
        draft.score_node_classes(self._intolerable(tolerations), reverse=True)
        return True

    # --- queue ---

    def events_to_register(self) -> Sequence[Registration]:
        of_nodes = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        of_pods = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
        by_tolerations = Grouping(_tolerations, lambda: Narrowing(_keys_tolerated, _keys_to_tolerate))
        return (
            Registration(of_nodes, is_schedulable_after_node_change, by_tolerations),
            Registration(of_pods, is_schedulable_after_toleration_change, ONE_GROUP),
        )


def is_schedulable_after_node_change(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the pod tolerates the node's taints now, and the node is new or the pod did not before."""
    if not isinstance(new, Node):
        return True
    tolerations = waiting.spec.tolerations or ()
    if find_untolerated(new.spec.taints, tolerations, KEEP_OFF) is not None:
        return False
    return not isinstance(old, Node) or find_untolerated(old.spec.taints, tolerations, KEEP_OFF) is not None


def is_schedulable_after_toleration_change(waiting: Pod, old: object, new: object) -> bool:
    """Return True if the toleration was added to the waiting pod itself."""
    return not isinstance(new, Pod) or new.metadata.uid == waiting.metadata.uid


def _keys_tolerated(tolerations: Hashable) -> Sequence[Options]:
    """Return the taint keys that the pods tolerate, as lookup tokens; none if they tolerate taints with any key."""
    keys = [toleration.key for toleration in tolerations if isinstance(toleration, Toleration)]  # type: ignore[attr-defined]
    return ([] if "" in keys else [keys],)


def _keys_to_tolerate(old: object, new: object) -> Sequence[str] | None:
    """Return the key of one taint that every pod on the node must tolerate; None for a node without such taints."""
    if not isinstance(new, Node):
        return None
    return next(([taint.key] for taint in new.spec.taints or () if taint.effect in KEEP_OFF), None)


def _tolerations(pod: PodInfo) -> tuple[Toleration, ...]:
    return tuple(pod.pod.spec.tolerations or ())
