"""Scores of feasible rows (nodes), bit for bit those of kube-scheduler 1.36.

Integer division here is on non-negative numbers unless a comment says otherwise, so Python's floor equals Go's
truncation.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import final

from kscheduler._fast.codes import CPU, EPHEMERAL_STORAGE, MAX_AMOUNT, MAX_RAW, MAX_SCORED_RESOURCES, MAX_WEIGHT, MEMORY
from kscheduler._fast.reference.checks import check_columns, check_node_class, check_scores, index, within
from kscheduler._fast.reference.columns import NodeColumns, PodRequest, _Row
from kscheduler._fast.reference.verdicts import Verdicts


@final
class Scores:
    """For each row (node): the raw score of the current Score plugin, and the weighted total of all plugins before."""

    def __init__(self) -> None:
        self._raw: list[int] = []
        self._total: list[int] = []

    @property
    def rows(self) -> int:
        return len(self._raw)

    def reset(self, columns: NodeColumns) -> None:
        """Begin with a new pod: set raw scores and totals to 0 on every row (node)."""
        self._raw = [0] * columns.rows
        self._total = [0] * columns.rows

    def raw(self, row: int) -> int:
        return self._raw[index("row", row, len(self._raw))]

    def total(self, row: int) -> int:
        return self._total[index("row", row, len(self._raw))]

    def set_raw(self, row: int, value: int) -> None:
        index("row", row, len(self._raw))
        self._raw[row] = within("value", value, -MAX_RAW, MAX_RAW)

    def add_total(self, row: int, value: int) -> None:
        """Add a score without weight to the total of a row (node), such as the score of an extender."""
        index("row", row, len(self._total))
        self._total[row] += within("value", value, -MAX_AMOUNT, MAX_AMOUNT)


_Weighted = Sequence[tuple[int, int]]


def score_least_allocated(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: _Weighted
) -> None:
    """Score like NodeResourcesFit's LeastAllocated: the weighted mean of the free percentages with the pod there.

    `resources` are (resource column, weight). cpu and memory include scoring's defaults for containers without a
    request.
    """
    _score_each(columns, verdicts, scores, resources, lambda node: _least(node, request, resources))


def score_most_allocated(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: _Weighted
) -> None:
    """Score like NodeResourcesFit's MostAllocated: the weighted mean of the used percentages with the pod there."""
    _score_each(columns, verdicts, scores, resources, lambda node: _most(node, request, resources))


def score_requested_to_capacity_ratio(
    columns: NodeColumns,
    verdicts: Verdicts,
    scores: Scores,
    request: PodRequest,
    resources: _Weighted,
    shape: Sequence[tuple[int, int]],
) -> None:
    """Score like NodeResourcesFit's RequestedToCapacityRatio: the weighted mean of used percentages mapped by `shape`.

    `shape` is a piecewise linear function as configured: points of (utilization 0..100 ascending, score 0..10).
    """
    table = _shape_table(shape)
    _score_each(columns, verdicts, scores, resources, lambda node: _ratio(node, request, resources, table))


def _score_each(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, resources: _Weighted, score: Callable[[_Row], int]
) -> None:
    check_columns(columns, verdicts)
    check_scores(verdicts, scores)
    if len(resources) > MAX_SCORED_RESOURCES:
        raise ValueError(f"resources: expected at most {MAX_SCORED_RESOURCES}, got {len(resources)}")
    for resource, weight in resources:
        index("resource", resource, columns.resource_count)
        within("weight", weight, 1, MAX_WEIGHT)
    for row in verdicts.feasible_rows():
        scores._raw[row] = score(columns._table[row])


def _use(node: _Row, request: PodRequest, resources: _Weighted) -> Iterator[tuple[int, int, int]]:
    """Yield (amount used with the pod, allocatable, weight) of each resource that counts on this node."""
    for resource, weight in resources:
        allocatable = node.allocatable[resource]
        amount = request._amounts.get(resource, 0)
        if allocatable <= 0 or (amount == 0 and resource > EPHEMERAL_STORAGE):
            continue
        if resource == CPU:
            yield node.non_zero_cpu + request.non_zero_cpu, allocatable, weight
        elif resource == MEMORY:
            yield node.non_zero_memory + request.non_zero_memory, allocatable, weight
        else:
            yield node.requested[resource] + amount, allocatable, weight


def _least(node: _Row, request: PodRequest, resources: _Weighted) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        total += weight * (max(allocatable - used, 0) * 100 // allocatable)
        weights += weight
    return total // weights if weights else 0


def _most(node: _Row, request: PodRequest, resources: _Weighted) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        total += weight * (min(used, allocatable) * 100 // allocatable)
        weights += weight
    return total // weights if weights else 0


def _ratio(node: _Row, request: PodRequest, resources: _Weighted, table: Sequence[int]) -> int:
    total = weights = 0
    for used, allocatable, weight in _use(node, request, resources):
        score = table[min(used, allocatable) * 100 // allocatable]
        if score > 0:
            total += weight * score
            weights += weight
    return (2 * total + weights) // (2 * weights) if weights else 0  # halves round up


def _shape_table(shape: Sequence[tuple[int, int]]) -> list[int]:
    """Return the score, 0..100, for each utilization 0..100 by the shape, which is constant beyond its ends."""
    if not shape:
        raise ValueError("shape: expected at least one point, got none")
    previous = -1
    for utilization, score in shape:
        within("utilization", utilization, previous + 1, 100)
        within("score", score, 0, 10)
        previous = utilization
    return [_on_line(shape, utilization) for utilization in range(101)]


def _on_line(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    left, left_score = shape[0]
    for right, right_score in shape:
        if utilization <= right:
            if right == left:
                return right_score * 10
            rise = 10 * (right_score - left_score) * (utilization - left)
            # Go divides toward zero, and the line may fall.
            step = abs(rise) // (right - left)
            return left_score * 10 + (step if rise >= 0 else -step)
        left, left_score = right, right_score
    return left_score * 10


def score_balanced(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, request: PodRequest, resources: Sequence[int]
) -> None:
    """Score like NodeResourcesBalancedAllocation: 50..100, more if the pod makes the node's used fractions more equal.

    75 is neutral. Amounts are as requested, without scoring's defaults. Doubles are computed in kube-scheduler's order.
    """
    weighted = [(resource, 1) for resource in resources]
    _score_each(columns, verdicts, scores, weighted, lambda node: _balanced(node, request, resources))


def _balanced(node: _Row, request: PodRequest, resources: Sequence[int]) -> int:
    before: list[float] = []
    after: list[float] = []
    for resource in resources:
        allocatable = node.allocatable[resource]
        amount = request._amounts.get(resource, 0)
        if allocatable <= 0 or (amount == 0 and resource > EPHEMERAL_STORAGE):
            continue
        used = node.requested[resource]
        before.append(_fraction(used, allocatable))
        after.append(_fraction(used + amount, allocatable))
    # Between 50 and 100 each, as a deviation is at most a half, so the division is of a non-negative number.
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def _fraction(used: int, allocatable: int) -> float:
    # float() of each first: Python's own int / int rounds once, Go's quotient of doubles rounds three times.
    return 1.0 if used >= allocatable else float(used) / float(allocatable)


def _evenness(fractions: Sequence[float]) -> int:
    """Return 100 minus the standard deviation of the fractions in percent, truncated."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * 100)


def score_node_classes(
    columns: NodeColumns, verdicts: Verdicts, scores: Scores, value_by_node_class: array[int]
) -> None:
    """Set the raw score of every feasible row to the value of its node class (nodes with equal labels and taints).

    `value_by_node_class` is array('q').
    """
    check_columns(columns, verdicts)
    check_scores(verdicts, scores)
    for node_class, value in enumerate(value_by_node_class):
        within(f"value of node class {node_class}", value, -MAX_RAW, MAX_RAW)
    rows = verdicts.feasible_rows()
    for row in rows:
        check_node_class(columns, row, len(value_by_node_class))
    for row in rows:
        scores._raw[row] = value_by_node_class[columns.node_class(row)]


def clear_raw(verdicts: Verdicts, scores: Scores) -> None:
    """Set the raw score of every row (node) to 0, before a plugin that adds to raw scores."""
    check_scores(verdicts, scores)
    scores._raw = [0] * scores.rows


def add_to_rows(scores: Scores, rows: array[int], amount: int) -> None:
    """Add an amount to the raw scores of these rows (nodes), feasible or not; `rows` is array('i').

    ValueError if a sum is beyond MAX_RAW; the rows before that one have then been changed.
    """
    within("amount", amount, -MAX_RAW, MAX_RAW)
    for row in rows:
        index("row", row, scores.rows)
    for row in rows:
        scores._raw[row] = within("raw score", scores._raw[row] + amount, -MAX_RAW, MAX_RAW)


def score_images(verdicts: Verdicts, scores: Scores, min_threshold: int, max_threshold: int) -> None:
    """Score like ImageLocality: map raw scores, the bytes of images that a node already has, to 0..100.

    `min_threshold` bytes or less become 0, `max_threshold` or more 100.
    """
    check_scores(verdicts, scores)
    within("min_threshold", min_threshold, 0, MAX_RAW)
    within("max_threshold", max_threshold, min_threshold + 1, MAX_RAW)
    for row in verdicts.feasible_rows():
        held = min(max(scores._raw[row], min_threshold), max_threshold)
        scores._raw[row] = 100 * (held - min_threshold) // (max_threshold - min_threshold)


def normalize(verdicts: Verdicts, scores: Scores, reverse: bool) -> None:
    """Normalise like kube-scheduler's default: raw * 100 / the highest raw, truncated; `reverse`: 100 minus that.

    If no raw score is above 0 they stay as they are, or all become 100 with `reverse`.
    """
    check_scores(verdicts, scores)
    rows = verdicts.feasible_rows()
    highest = max((scores._raw[row] for row in rows), default=0)
    for row in rows:
        raw = scores._raw[row]
        if highest <= 0:
            scores._raw[row] = 100 if reverse else raw
            continue
        scaled = abs(raw) * 100 // highest
        scaled = scaled if raw >= 0 else -scaled
        scores._raw[row] = 100 - scaled if reverse else scaled


def accumulate(verdicts: Verdicts, scores: Scores, weight: int) -> int:
    """Add weight * raw score to the total of each feasible row (node), and return -1.

    If a raw score is not 0..100, add nothing and return the first such row.
    """
    check_scores(verdicts, scores)
    within("weight", weight, 0, MAX_WEIGHT)
    rows = verdicts.feasible_rows()
    for row in rows:
        if not 0 <= scores._raw[row] <= 100:
            return row
    for row in rows:
        scores._total[row] += weight * scores._raw[row]
    return -1
