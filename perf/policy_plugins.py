"""Two policies as plugins that are compiled into the program or written in Python, for `perf.wasm_policies`.

`label` prefers nodes by a number in one of their labels, `packing` by how much of their CPU is requested.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any

from kscheduler._fast import Scores, Verdicts, score_most_allocated, values_by_node_class
from kscheduler.framework import CycleState, Handle, NodeInfo, PodInfo, Status
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.snapshot.node_table import NodeTable

LABEL = "example.com/performance"
NUMBERS = 101  # values of the label: the highest is 100, so that scores are the numbers themselves
CORES = 32  # of a node


def number_of(node: str) -> int:
    """What the label of node n<i> says."""
    return int(node[1:]) % NUMBERS


# --- the policies in the program ---------------------------------------------------------------------------------


class NativeLabel:
    """The policy `label` as a compiled plugin: one score per node class (nodes with equal labels and taints)."""

    name = "NativeLabel"

    def __init__(self, args: object, handle: Handle) -> None:
        self._table: NodeTable = handle.table

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return int(node.labels.get(LABEL, "0")), None

    def sign_pod(self, pod: PodInfo) -> Hashable | None:
        return ()

    def compile_class(self, draft: ClassDraft, pod: PodInfo) -> bool:
        draft.depends_on(Source.OBJECTS)
        rows = array("q", [0]) * self._table.columns.rows
        for node in self._table:
            rows[node.row] = int(node.labels.get(LABEL, "0"))
        by_node_class = values_by_node_class(self._table.columns, rows.tobytes(), len(self._table.node_classes))
        if by_node_class is None:
            return False
        draft.score_node_classes(array("q", by_node_class), reverse=False)
        return True


class KernelPacking:
    """The policy `packing` as a plugin that runs one kernel over all rows (nodes) for each pod."""

    name = "KernelPacking"

    def __init__(self, args: object, handle: Handle) -> None:
        self._table: NodeTable = handle.table

    @property
    def _weights(self) -> list[tuple[int, int]]:
        column = self._table.resources.find("cpu")
        return [] if column is None else [(column, 1)]

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return packed(node, pod), None

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        score_most_allocated(table.columns, verdicts, scores, table.request_of(pod), self._weights)


# --- in Python ------------------------------------------------------------------------------------------------------


class PythonLabel:
    name = "PythonLabel"

    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return int(node.labels.get(LABEL, "0")), None


class PythonPacking:
    name = "PythonPacking"

    def __init__(self, args: object, handle: Handle) -> None:
        pass

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        return packed(node, pod), None


class _ByTable:
    """The base of Python plugins that are called once per pod, for all nodes."""

    def score_table(
        self, state: CycleState, pod: PodInfo, table: NodeTable, verdicts: Verdicts, scores: Scores
    ) -> None:
        ask: Any = self
        for row in verdicts.feasible_rows():
            node = table.find(row)
            assert node is not None
            scores.set_raw(row, ask.score(state, pod, node)[0])


class PythonLabelTable(_ByTable, PythonLabel):
    name = "PythonLabelTable"


class PythonPackingTable(_ByTable, PythonPacking):
    name = "PythonPackingTable"


def packed(node: NodeInfo, pod: PodInfo) -> int:
    has = CORES * 1000
    return min(node.non_zero_requested[0] + pod.resources.non_zero_cpu_milli, has) * 100 // has
