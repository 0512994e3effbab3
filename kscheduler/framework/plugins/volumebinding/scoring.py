"""VolumeBinding with a score: prefers nodes by how much of the capacity there the pod's volumes would use.

For each StorageClass, the use is the requested share of the volumes that the pod would get, or else of the free
capacity from which its volumes would be provisioned. A configured piecewise linear function maps the use to a score,
and the node's score is the mean over the classes, rounded half up; 0 where no capacity is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping

from kscheduler._fast import FEASIBLE, Scores, Verdicts, clear_raw, score_node_classes
from kscheduler.api.quantity import milli_to_units
from kscheduler.framework.broken_line import Shape, score_on_line
from kscheduler.framework.class_draft import ClassDraft
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import Handle
from kscheduler.framework.plugins.volumebinding.accessible_nodes import Labels
from kscheduler.framework.plugins.volumebinding.matching import requested_milli
from kscheduler.framework.plugins.volumebinding.plugin import (
    DEFAULT_BIND_TIMEOUT_S,
    QUESTION,
    VolumeBinding,
    rows_with,
    started_rows,
)
from kscheduler.framework.plugins.volumebinding.question import CapacityUse, Question
from kscheduler.framework.plugins.volumebinding.volume_index import Choice
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_classes import HOSTNAME
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.snapshot.topology import NO_DOMAIN

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
        # 1. One claim that gets a volume of the node's own, of which there may be as many as nodes.
        if (choice := question.sole_choice) is not None and (sizes := choice.sizes_by_host) is not None:
            self._score_hosts(choice, sizes, question, table, verdicts, scores)
            return
        # 2. Nodes with an answer of their own: where a volume is of one host, or is made already.
        score_of, hosts = self._scorer(question), question.single_nodes
        if hosts is None or len(table.node_classes) > verdicts.feasible_count():
            single: Iterable[int] = verdicts.feasible_rows()
        else:
            # 3. All others answer as their node class does.
            by_node_class = array("q", (score_of(each.labels) for each in table.node_classes.since(0)))
            score_node_classes(table.columns, verdicts, scores, by_node_class)
            single = {*rows_with(table, HOSTNAME, hosts), *started_rows(question, table)}
        for row in single:
            if verdicts.code(row) == FEASIBLE:
                scores.set_raw(row, score_of(table.at(row).labels))

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.says_score()  # pods with claims do not come here
        return True

    def _score_hosts(
        self,
        choice: Choice,
        sizes: Mapping[str, int],
        question: Question,
        table: NodeTable,
        verdicts: Verdicts,
        scores: Scores,
    ) -> None:
        """Score nodes by the size of the volume that the claim gets there. `sizes`: by hostname, in thousandths."""
        requested, column = milli_to_units(requested_milli(choice.claim)), table.topology.column(HOSTNAME)
        by_size = {size: self._score_of[_percent(requested, milli_to_units(size))] for size in set(sizes.values())}
        by_host = {column.id_of(host): by_size[size] for host, size in sizes.items()}
        by_host.pop(NO_DOMAIN, None)  # of hosts that are not there
        score_of, ids = self._scorer(question), column.ids
        for row in verdicts.feasible_rows():
            known = by_host.get(ids[row])
            scores.set_raw(row, score_of(table.at(row).labels) if known is None else known)

    def _scorer(self, question: Question) -> Callable[[Labels], int]:
        """Return a function that scores a node that accepts the pod's volumes, by its labels."""
        offer = question.sole_offer
        if offer is None:
            return lambda labels: self._mean_score(question.capacity_use(labels))
        size, score_of = offer.size, self._score_of

        def score(labels: Labels) -> int:
            free = offer.capacity(labels)
            return 0 if free is None else score_of[_percent(size, free)]

        return score

    def _mean_score(self, uses: Mapping[str, CapacityUse]) -> int:
        if not uses:
            return 0
        total = sum(self._score_of[_percent(*use)] for use in uses.values())
        return (2 * total + len(uses)) // (2 * len(uses))


def _percent(requested: int, capacity: int) -> int:
    """Return the share of the capacity that is requested, rounded down; 100 if it is not enough."""
    if capacity == 0 or requested > capacity:
        return 100
    return requested * 100 // capacity
