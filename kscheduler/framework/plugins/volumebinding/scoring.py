"""VolumeBinding with a score: prefers nodes by how much of the capacity there the pod's volumes would use.

For each StorageClass, the use is the requested share of the volumes that the pod would get, or else of the free
capacity from which its volumes would be provisioned. A configured piecewise linear function maps the use to a score,
and the node's score is the mean over the classes, rounded half up; 0 where no capacity is known.
"""

from __future__ import annotations

from collections.abc import Mapping

from kscheduler._fast import Scores, Verdicts, clear_raw
from kscheduler.framework.broken_line import Shape, score_on_line
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.volumebinding.plugin import (
    DEFAULT_BIND_TIMEOUT_S,
    QUESTION,
    VolumeBinding,
    rows_with,
    started_rows,
)
from kscheduler.framework.plugins.volumebinding.question import CapacityUse, Question
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

DEFAULT_SHAPE = ((0, 10), (100, 0))  # prefers nodes with much free capacity


class ScoringVolumeBinding(VolumeBinding):
    """VolumeBinding, with a score by storage capacity.

    `shape`: the points (utilization in percent, score 0..10) of the line from the use of capacity to the score.
    """

    def __init__(
        self, handle: Handle, bind_timeout_s: float = DEFAULT_BIND_TIMEOUT_S, shape: Shape = DEFAULT_SHAPE
    ) -> None:
        super().__init__(handle, bind_timeout_s)
        self._score_of = [score_on_line(shape, utilization) for utilization in range(101)]  # by percent used

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Succeed for every pod, as kube-scheduler does: a pod without claims scores 0 on each node."""
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        question = state.get(QUESTION, Question)
        return (0 if question is None else self._mean_score(question.capacity_use(node.labels))), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        clear_raw(verdicts, scores)
        question = state.get(QUESTION, Question)
        if question is None or not question.may_use_capacity:
            return
        # Nodes with an answer of their own: where a volume is of one host, or is made already; None: all nodes.
        hosts = question.single_nodes
        single = None if hosts is None else {*rows_with(table, HOSTNAME, hosts), *started_rows(question, table)}
        by_node_class: dict[int, int] = {}  # all others answer as their node class does: its id -> score
        for row in verdicts.feasible_rows():
            node = table.at(row)
            if single is None or row in single:
                score = self._mean_score(question.capacity_use(node.labels))
            else:
                known = by_node_class.get(node.node_class.id)
                score = self._mean_score(question.capacity_use(node.labels)) if known is None else known
                by_node_class[node.node_class.id] = score
            if score:
                scores.set_raw(row, score)

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.says_score()  # pods with claims do not come here
        return True

    def _mean_score(self, uses: Mapping[str, CapacityUse]) -> int:
        if not uses:
            return 0
        total = sum(self._score_of[_percent(use)] for use in uses.values())
        return (2 * total + len(uses)) // (2 * len(uses))


def _percent(use: CapacityUse) -> int:
    """Return the share of the capacity that is requested, rounded down; 100 if it is not enough."""
    if use.capacity == 0 or use.requested > use.capacity:
        return 100
    return use.requested * 100 // use.capacity
