"""Filters by free resources and by node class. They change only rows that are still feasible."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from kscheduler._fast.codes import FEASIBLE, MAX_CODE, TOO_MANY_PODS, UNRESOLVABLE, entry_bit
from kscheduler._fast.reference.checks import INT32_MAX, check_columns, check_node_class, index, within
from kscheduler._fast.reference.columns import NodeColumns, PodRequest, _Row
from kscheduler._fast.reference.verdicts import Verdicts


def filter_node_classes(
    columns: NodeColumns, verdicts: Verdicts, verdict_by_node_class: bytes | bytearray | array[int], code: int
) -> int:
    """Reject the nodes whose node class has a verdict other than 0; the verdict becomes the detail (reason number).

    A node class has the nodes with equal labels and taints. `verdict_by_node_class` has a byte, 0..127, for each class.
    Returns the number of feasible nodes left.
    """
    check_columns(columns, verdicts)
    within("code", code, 1, MAX_CODE)
    for node_class, verdict in enumerate(verdict_by_node_class):
        within(f"verdict of node class {node_class}", verdict, 0, 127)
    rows = verdicts.feasible_rows()
    for row in rows:
        check_node_class(columns, row, len(verdict_by_node_class))
    for row in rows:
        verdict = verdict_by_node_class[columns.node_class(row)]
        if verdict:
            verdicts.reject(row, code, verdict)
    return verdicts.feasible_count()


def filter_fit(columns: NodeColumns, verdicts: Verdicts, request: PodRequest, code: int) -> int:
    """Reject the nodes without room for the pod, as NodeResourcesFit does. Returns the number of feasible nodes left.

    The detail (reason number) is a sum of bits: TOO_MANY_PODS, `entry_bit(i)` if there is too little for the i-th entry
    of the request, and UNRESOLVABLE if an entry is more than the node's allocatable.
    """
    check_columns(columns, verdicts)
    within("code", code, 1, MAX_CODE)
    columns._check_resources(request)
    for row in verdicts.feasible_rows():
        short = _shortage(columns._table[row], request, ())
        if short:
            verdicts.reject(row, code, short)
    return verdicts.feasible_count()


def _shortage(node: _Row, request: PodRequest, beside: Sequence[PodRequest]) -> int:
    """Return the reason number of `filter_fit`, with the requests `beside` counted on the node; 0 if there is room."""
    taken = Counter[int]()  # resource -> what they take of it
    for other in beside:
        taken.update(dict(other.entries))
    short = TOO_MANY_PODS if node.pods + len(beside) + 1 > node.allowed_pods else 0
    for position, (resource, amount) in enumerate(request.entries):
        if amount > node.allocatable[resource] - node.requested[resource] - taken[resource]:
            short |= entry_bit(position)
            if amount > node.allocatable[resource]:
                short |= UNRESOLVABLE
    return short


@final
class RowNominated:
    """The pods nominated to the node in a row, as (uid, priority, request). Immutable.

    `here` has the uids of the pods that are on the node now; a nominated pod among them is not counted twice.
    """

    def __init__(self, row: int, here: Mapping[str, object], pods: Sequence[tuple[str, int, PodRequest]]) -> None:
        self._row = within("row", row, 0, INT32_MAX)
        self._here = here
        self._pods = tuple(pods)
        for _, priority, _ in self._pods:
            within("priority", priority, -INT32_MAX - 1, INT32_MAX)

    @property
    def row(self) -> int:
        return self._row

    def _beside(self, priority: int, uid: str) -> list[PodRequest]:
        """List the requests of the nominated pods for which a pod of this priority must leave room."""
        return [
            request
            for other, others_priority, request in self._pods
            if others_priority >= priority and other != uid and other not in self._here
        ]


def filter_with_nominated(
    columns: NodeColumns,
    verdicts: Verdicts,
    request: PodRequest,
    nominated_by_node: Iterable[RowNominated],
    priority: int,
    uid: str,
    code: int,
    last: int,
) -> None:
    """Reject the nodes without room for the pod and the pods nominated to them, with the reason number of `filter_fit`.

    Nominated pods count if their priority is at least the pod's; the pod itself is left out. To be called after all
    filters, of which the last has the code `last`: a rejection here replaces one by `code` or by a later filter.
    """
    check_columns(columns, verdicts)
    within("code", code, 1, MAX_CODE)
    within("last", last, code, MAX_CODE)
    within("priority", priority, -INT32_MAX - 1, INT32_MAX)
    columns._check_resources(request)
    for nominated in nominated_by_node:
        index("row", nominated.row, verdicts.rows)
        before = verdicts.code(nominated.row)
        beside = nominated._beside(priority, uid)
        if not beside or (before != FEASIBLE and not code <= before <= last):
            continue
        short = _shortage(columns._table[nominated.row], request, beside)
        if short:
            verdicts._code[nominated.row], verdicts._detail[nominated.row] = code, short
