"""Rules on live metrics for all rows (nodes) of a table. Nothing is cached here: each call evaluates all rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import TypeAlias, final

from kscheduler._fast.codes import MAX_CODE
from kscheduler._fast.metric_formulas import (
    LOW_RISK,
    NOT_EQUAL,
    PODS,
    Load,
    MetricGoal,
    MetricTest,
    mark_of,
    points_of,
)
from kscheduler._fast.reference.checks import check_columns, check_scores, index, within
from kscheduler._fast.reference.columns import NodeColumns
from kscheduler._fast.reference.scoring import Scores
from kscheduler._fast.reference.verdicts import Verdicts

MAX_REASONS = 255
MAX_INPUTS = 1024
MAX_RULE_WEIGHT = 1_000_000

_Doubles: TypeAlias = "array[float] | memoryview"


@final
class MetricRules:
    """Rules on live metrics for each row (node) of a table: tests that may reject it, goals that give points, 0..100.

    A row passes if in each of `groups` one test holds. `feed` sets the inputs (metric values by row); the resources in
    use are read from the columns whenever they are needed.
    """

    def __init__(
        self, columns: NodeColumns, groups: Sequence[Sequence[MetricTest]], goals: Sequence[MetricGoal], inputs: int
    ) -> None:
        self._columns = columns
        self._groups = [list(group) for group in groups]
        self._goals = list(goals)
        self._count = within("inputs", inputs, 0, MAX_INPUTS)
        within("reasons", 2 * len(self._groups) + len(self._goals), 0, MAX_REASONS)
        for group in self._groups:
            for test in group:
                index("input", test.value, self._count)
                within("operator", test.operator, 0, NOT_EQUAL)
                self._check_load(test.load)
        for goal in self._goals:
            index("input", goal.value, self._count)
            index("input", goal.deviation, self._count)
            within("kind", goal.kind, 0, LOW_RISK)
            within("weight", goal.weight, 0, MAX_RULE_WEIGHT)
            if not 0.0 <= goal.neutral <= 100.0:
                raise ValueError(f"neutral: expected 0..100, got {goal.neutral}")
            self._check_load(goal.load)
        self._inputs: list[array[float]] = [array("d")] * self._count
        self._ranges = [(math.nan, math.nan)] * len(self._goals)

    @property
    def columns(self) -> NodeColumns:
        return self._columns

    def feed(self, inputs: Sequence[_Doubles], ranges: Sequence[tuple[float, float]]) -> None:
        """Set all inputs (doubles by row, i.e. node; NaN: absent), and for each goal the values at its range's ends.

        Rows past an input's end have no value. Values for rows that the table does not have yet are ignored.
        """
        if len(inputs) != self._count:
            raise ValueError(f"inputs: expected {self._count}, got {len(inputs)}")
        if len(ranges) != len(self._goals):
            raise ValueError(f"ranges: expected {len(self._goals)}, got {len(ranges)}")
        self._inputs = [array("d", each[: self._columns.rows]) for each in inputs]
        self._ranges = [(float(low), float(high)) for low, high in ranges]

    def mark(self, row: int) -> int:
        """Return 0 if the rules accept the row (node), else the reason as `mark_of` defines it."""
        index("row", row, self._columns.rows)
        return mark_of(self._groups, self._goals, lambda number: self._input(number, row), lambda r: self._use(r, row))

    def points(self, row: int) -> int:
        index("row", row, self._columns.rows)
        return points_of(
            self._goals, self._ranges, lambda number: self._input(number, row), lambda r: self._use(r, row)
        )

    def absent(self, number: int) -> int:
        """Return the number of nodes that have no value for the input with this number."""
        index("input", number, self._count)
        alive = (row for row in range(self._columns.rows) if self._columns.is_alive(row))
        return sum(not math.isfinite(self._input(number, row)) for row in alive)

    def filter(self, verdicts: Verdicts, code: int) -> int:
        """Reject the nodes that the rules reject, with the reason number (detail) mark - 1; see `mark`.

        Returns the number of feasible nodes.
        """
        within("code", code, 1, MAX_CODE)
        check_columns(self._columns, verdicts)
        for row in verdicts.feasible_rows():
            mark = self.mark(row)
            if mark:
                verdicts.reject(row, code, mark - 1)
        return verdicts.feasible_count()

    def score(self, verdicts: Verdicts, scores: Scores) -> None:
        """Set the raw score of every feasible row (node) to its points."""
        check_columns(self._columns, verdicts)
        check_scores(verdicts, scores)
        for row in verdicts.feasible_rows():
            scores.set_raw(row, self.points(row))

    # --- inside ---

    def _check_load(self, load: Load | None) -> None:
        if load is not None:
            within("resource", load.resource, PODS, self._columns.resource_count - 1)
            index("input", load.baseline, self._count)

    def _input(self, number: int, row: int) -> float:
        values = self._inputs[number]
        return values[row] if row < len(values) else math.nan

    def _use(self, resource: int, row: int) -> tuple[int, int]:
        if resource == PODS:
            return self._columns.pod_count(row), 1
        return self._columns.requested(row, resource), self._columns.allocatable(row, resource)


def copy_use(columns: NodeColumns, resource: int) -> array[float]:
    """Return by row how much of a resource column is in use, as doubles, or for PODS the number of pods.

    NaN where there is no node.
    """
    within("resource", resource, PODS, columns.resource_count - 1)
    found = array("d")
    for row in range(columns.rows):
        used = columns.pod_count(row) if resource == PODS else columns.requested(row, resource)
        found.append(float(used) if columns.is_alive(row) else math.nan)
    return found


def mean_use(
    times: _Doubles, uses: Sequence[_Doubles], sampled: _Doubles, window_s: float, now: _Doubles
) -> array[float]:
    """Return by row the mean usage over the time that a sample covers: the `window_s` seconds up to `sampled`.

    `uses[i]` was in use after times[i] (ascending) up to the next time; the first usage of a row also counts before its
    time. NaN, where another node had the row, is left out. If nothing is left, the result is the usage `now`.
    """
    if len(times) != len(uses):
        raise ValueError(f"uses: expected {len(times)}, got {len(uses)}")
    found = array("d", now)
    for row in range(min(len(found), len(sampled))):
        if math.isfinite(sampled[row]):
            found[row] = _mean(times, uses, sampled[row], window_s, row, found[row])
    return found


def _mean(times: _Doubles, uses: Sequence[_Doubles], end: float, window_s: float, row: int, otherwise: float) -> float:
    total = weight = 0.0
    is_first = True
    for i, used in enumerate(uses):
        if row >= len(used) or math.isnan(used[row]):
            continue
        begins = -math.inf if is_first else times[i]
        is_first = False
        ends = times[i + 1] if i + 1 < len(uses) else math.inf
        if window_s > 0.0:
            overlap = min(ends, end) - max(begins, end - window_s)
        else:
            overlap = 1.0 if begins < end <= ends else 0.0
        if overlap > 0.0:
            total += overlap * used[row]
            weight += overlap
    return total / weight if weight > 0.0 else otherwise
