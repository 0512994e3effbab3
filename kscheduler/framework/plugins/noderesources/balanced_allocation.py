"""NodeResourcesBalancedAllocation: prefers nodes whose resources will be used to a similar degree with the pod there.

kube-scheduler 1.36's formula: f_r = min(used/allocatable, 1); std over the resources (half the difference for two,
population deviation for more); s = int((1 − std)·100); score = 50 + (50 + s_with − s_without)/2, truncated, where
s_with and s_without are s with and without the pod. About 75 is neutral.

Of an extended resource that a device class backs, a node that has none of it has the devices of the class instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kscheduler._fast import CPU, EPHEMERAL_STORAGE, MEMORY, PodRequest, Scores, Verdicts, score_balanced
from kscheduler.api.resources import PodResources
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.interface import MAX_NODE_SCORE, Handle
from kscheduler.framework.plugins.noderesources.backed import Backing, Stocks
from kscheduler.framework.status import SKIP, Status
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

NAME = "NodeResourcesBalancedAllocation"
DEFAULT_RESOURCES = ("cpu", "memory")
_REQUEST = "NodeResourcesBalancedAllocation/request"
_STOCKS = "NodeResourcesBalancedAllocation/stocks"
NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)


class BalancedAllocation:
    name = NAME
    signs_metadata = False

    def __init__(self, handle: Handle, resources: Sequence[str] = DEFAULT_RESOURCES) -> None:
        self._table = handle.table
        self._columns = [handle.table.resources.column(name) for name in resources]
        self._backing = Backing(handle)

    def pre_score(self, state: CycleState, pod: PodInfo) -> Status | None:
        request = self._table.request_of(pod)
        if not self._is_asked_for(request):
            return SKIP
        state.write(_REQUEST, request)
        if pod.resources.total.scalars:
            stocks = self._backing.stocks(pod, self._columns)
            if stocks is not None:
                state.write(_STOCKS, stocks)
        return None

    def _is_asked_for(self, request: PodRequest) -> bool:
        return any(column in self._columns for column, _ in request.entries)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        own, stocks = dict(state.read(_REQUEST, PodRequest).entries), state.get(_STOCKS, Stocks)
        before: list[float] = []
        after: list[float] = []
        for column in self._columns:
            capacity = self._table.columns.allocatable(node.row, column)
            request = own.get(column, 0)
            if column not in NATIVE and request == 0:
                continue
            used = self._table.columns.requested(node.row, column)
            if capacity <= 0 and stocks is not None:
                capacity, used = stocks.of(node.node, column)
            if capacity <= 0:
                continue
            before.append(_fraction(used, capacity))
            after.append(_fraction(used + request, capacity))
        half = MAX_NODE_SCORE // 2
        return half + int((half + _balance(after) - _balance(before)) / 2), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        if state.get(_STOCKS, Stocks) is not None:
            for row in verdicts.feasible_rows():
                scores.set_raw(row, self.score(state, pod, table.at(row))[0])
            return
        score_balanced(table.columns, verdicts, scores, state.read(_REQUEST, PodRequest), self._columns)

    # --- the compiled lane ---

    def sign_pod(self, pod: PodInfo) -> PodResources:
        return pod.resources

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        request = self._table.request_of(pod)
        if pod.resources.total.scalars:
            draft.depends_on(Source.DEVICES)
            if not set(self._columns).isdisjoint(self._backing.columns(pod)):
                return False
        if self._is_asked_for(request):
            draft.score_balanced(request, self._columns)
        return True


def _fraction(used: int, capacity: int) -> float:
    # Each to a double first, as in Go: Python divides large integers more exactly than that.
    return 1.0 if used >= capacity else float(used) / float(capacity)


def _balance(fractions: Sequence[float]) -> int:
    """Return 100 if all fractions are equal, and less the more they differ."""
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((fraction - mean) ** 2 for fraction in fractions) / len(fractions))
    else:
        deviation = 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)
