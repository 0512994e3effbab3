"""The details of a decision: each node's filter result, compressed, and the scores of the best nodes.

A cluster has many nodes and few reasons for rejection, so each node's result is stored as a number, which compresses
well.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from kscheduler.framework.cycle_review import CycleReview, PluginScores
from kscheduler.framework.node_values import NodeValue
from kscheduler.framework.status import Status
from kscheduler.snapshot.node_table import NodeTable

FITS = 0
NOT_EXAMINED = 1
OUTSIDE = 2  # the domain of nodes to which the search was confined
FIRST_STATUS = 3  # stands for the first status; each further status has the next number
MAX_STATUSES = 1_000  # if there are more, the rarest are reported as the last of these
_COMPRESSION = 1  # level of zlib: takes a few tens of microseconds for thousands of nodes
_NAME_BYTES = 64  # memory per node: a pointer, and the name if the node is no longer in the table


class NodeNames(msgspec.Struct, gc=False, eq=False):
    """Maps each row of the node table to its node's name, or "". Decisions share one object until a node changes."""

    names: tuple[str, ...]

    def size(self) -> int:
        return _NAME_BYTES * len(self.names)


class PluginScore(NamedTuple):
    plugin: str
    weight: int
    raw: int
    normalized: int


class NodeScore(NamedTuple):
    node: str
    total: int
    plugins: tuple[PluginScore, ...]


class ValueOnNode(NamedTuple):
    node: str
    plugin: str
    value: NodeValue


class NodeDetails(msgspec.Struct, gc=False):
    names: NodeNames
    statuses: tuple[Status, ...]  # why nodes were rejected, the most frequent reason first
    packed: bytes
    filters: tuple[str, ...] = ()  # the Filter plugins that ran, in order
    best: tuple[NodeScore, ...] = ()  # empty if there was only one feasible node or none
    values: tuple[ValueOnNode, ...] = ()  # live metric values that plugins used on some nodes
    is_confined: bool = False  # some nodes are OUTSIDE

    def numbers(self) -> array[int]:
        """Return each row's result: FITS, NOT_EXAMINED, OUTSIDE, or FIRST_STATUS + an index into `statuses`."""
        found = array("H")
        found.frombytes(zlib.decompress(self.packed))
        return found

    def verdicts(self) -> Iterator[tuple[str, int]]:
        """Yield (node name, result) for all nodes; the result is one of those of `numbers`."""
        return ((name, number) for name, number in zip(self.names.names, self.numbers(), strict=False) if name)

    def size(self) -> int:
        scores = sum(200 + 150 * len(node.plugins) for node in self.best)
        statuses = sum(200 + sum(map(len, status.reasons)) for status in self.statuses)
        return 200 + len(self.packed) + 8 * len(self.filters) + scores + statuses + 300 * len(self.values)


def names_of(table: NodeTable, rows: int) -> NodeNames:
    names = [""] * rows
    for node in table:
        if node.row < rows:
            names[node.row] = node.name
    return NodeNames(tuple(names))


def take_details(review: CycleReview, names: NodeNames, top_nodes: int, chosen: str) -> NodeDetails:
    """Copy the details from a review of a scheduling cycle, before the pod is assumed: that would change scores.

    `chosen`: the selected node, which is included in the best nodes even if many have its score; "" if there is none.
    """
    rejected = review.rejected_rows()
    feasible = review.feasible_rows()
    best = _best_rows(review, top_nodes, chosen) if top_nodes and len(feasible) > 1 else []
    return NodeDetails(
        names,
        tuple(_without_fault(status) for status, _ in rejected[:MAX_STATUSES]),
        _packed(review, feasible, rejected),
        tuple(map(sys.intern, review.filters)),
        _scored(review, names, best),
        _values(review, names, [row for row, _ in best] or feasible[:top_nodes], rejected, top_nodes),
        bool(review.outside_rows()),
    )


def _without_fault(status: Status) -> Status:
    """Return the status without its exception, whose traceback would keep many objects alive."""
    return status if status.error is None else Status(status.code, status.reasons, status.plugin)


def _packed(review: CycleReview, feasible: list[int], rejected: list[tuple[Status, list[int]]]) -> bytes:
    groups = [(FITS, feasible), (NOT_EXAMINED, review.unexamined_rows()), (OUTSIDE, review.outside_rows())]
    groups += [(FIRST_STATUS + min(place, MAX_STATUSES - 1), rows) for place, (_, rows) in enumerate(rejected)]
    # The largest group is written by one multiplication, not row by row.
    largest = max(groups, key=lambda group: len(group[1]))
    numbers = array("H", [largest[0]]) * review.rows
    for number, rows in groups:
        if rows is not largest[1]:
            for row in rows:
                numbers[row] = number
    return zlib.compress(numbers.tobytes(), _COMPRESSION)


def _values(
    review: CycleReview,
    names: NodeNames,
    best: list[int],
    rejected: list[tuple[Status, list[int]]],
    top_nodes: int,
) -> tuple[ValueOnNode, ...]:
    """Return the live metric values of the best nodes, and of up to `top_nodes` nodes rejected because of theirs."""
    plugins = review.valuing_plugins
    if not plugins:
        return ()
    out = [row for status, rows in rejected if status.plugin in plugins for row in rows[:top_nodes]][:top_nodes]
    return tuple(
        ValueOnNode(names.names[row], plugin, value) for row in (*best, *out) for plugin, value in review.values(row)
    )


def _best_rows(review: CycleReview, top_nodes: int, chosen: str) -> list[tuple[int, int]]:
    """Return (row, total score) of the best nodes, the chosen one included."""
    best = review.best_rows(top_nodes)
    row = review.table.row_of(chosen)
    if row is not None and row not in (each for each, _ in best):
        best = [*best[: top_nodes - 1], (row, review.total(row))]
    return best


def _scored(review: CycleReview, names: NodeNames, best: list[tuple[int, int]]) -> tuple[NodeScore, ...]:
    if not best:
        return ()
    by_plugin = review.score_again([row for row, _ in best])
    return tuple(
        NodeScore(names.names[row], total, tuple(_score_at(scores, place) for scores in by_plugin))
        for place, (row, total) in enumerate(best)
    )


def _score_at(scores: PluginScores, place: int) -> PluginScore:
    return PluginScore(scores.plugin, scores.weight, scores.raw[place], scores.normalized[place])
