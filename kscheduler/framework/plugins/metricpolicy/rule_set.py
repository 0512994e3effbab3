"""The compiled rules of one policy with current metric values, for pods with equal progress in the policy."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping

from kscheduler._fast import MetricRules
from kscheduler._fast.metric_formulas import LOW_RISK, PODS, Load, expected, mark_of, points_of
from kscheduler.config.metric_policy import PolicySpec
from kscheduler.framework.node_values import NodeValue
from kscheduler.framework.plugins.metricpolicy.rules import Baseline, Rules, Values
from kscheduler.framework.plugins.metricpolicy.use_history import UseHistory
from kscheduler.framework.status import Status, unresolvable
from kscheduler.framework.telemetry import PolicyRef, SampleSteps
from kscheduler.snapshot.metric_columns import MetricColumn
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable


class RuleSet:
    """The compiled rules of a policy, with the columns (values by node) of the metrics that they read.

    `kernel` evaluates them for all rows, on the values of the last `feed` and the resources that are in use now.
    """

    def __init__(self, policy: PolicyRef, spec: PolicySpec, rules: Rules, table: NodeTable) -> None:
        self.policy = policy
        self.spec = spec
        self.rules = rules
        self._table = table
        self.kernel = MetricRules(table.columns, rules.groups, rules.goals, len(rules.inputs))
        self._inputs: list[array[float] | memoryview] = []
        self._ranges: list[tuple[float, float]] = []
        self.awaits = ""  # a metric that pods wait for, because no node has a value of it
        self.lacking: frozenset[str] = frozenset()  # fallbacks that were taken on some node

    @property
    def values(self) -> set[Values]:
        """Return the metrics, each with its freshness, that the rules read."""
        return {each.of if isinstance(each, Baseline) else each for each in self.rules.inputs}

    @property
    def resources(self) -> set[int]:
        """Return the resources whose usage the rules need, both now and when the values were sampled."""
        return {each.resource for each in self.rules.inputs if isinstance(each, Baseline)}

    def feed(self, columns: Mapping[Values, MetricColumn | None], history: UseHistory) -> None:
        """Take over the current values of the metrics' columns; None stands for an unknown metric without values."""
        rules = self.rules
        self._inputs = [self._read(each, columns, history) for each in rules.inputs]
        self._ranges = [given if isinstance(given, tuple) else _ends(columns[given]) for given in rules.ranges]
        self.kernel.feed(self._inputs, self._ranges)
        self.awaits = next((each.metric for each in rules.awaited if _is_empty(columns[each])), "")
        numbers = {each: number for number, each in enumerate(rules.inputs)}
        self.lacking = frozenset(fallback for each, fallback in rules.fallbacks if self.kernel.absent(numbers[each]))

    def outside(self, columns: Mapping[Values, MetricColumn | None]) -> dict[str, str]:
        """Return metric -> why its rule scores all nodes equally: all values lie outside of the rule's range."""
        found: dict[str, str] = {}
        for goal, given in zip(self.rules.goals, self.rules.ranges, strict=True):
            read = self.rules.inputs[goal.value]
            if isinstance(read, Baseline) or not isinstance(given, tuple):
                continue
            column = columns[read]
            if column is None:
                continue
            if column.least > given[1] or column.most < given[0]:  # not so for NaN
                found[read.metric] = (
                    f"values from {column.least:g} to {column.most:g}, range from {given[0]:g} to {given[1]:g}"
                )
        return found

    @staticmethod
    def _read(
        wanted: Values | Baseline, columns: Mapping[Values, MetricColumn | None], history: UseHistory
    ) -> array[float] | memoryview:
        column = columns[wanted.of if isinstance(wanted, Baseline) else wanted]
        if column is None:
            return array("d")
        return history.baseline(wanted.resource, column) if isinstance(wanted, Baseline) else column.values

    # --- one node ---

    def mark_of(self, node: NodeInfo) -> int:
        """Return the kernel's verdict on a single node, also on a copy: 0 accepts, else the reason number plus 1."""
        rules = self.rules
        return mark_of(rules.groups, rules.goals, lambda number: self._input(number, node.row), lambda r: _use(node, r))

    def points_of(self, node: NodeInfo) -> int:
        """Return the score 0..100 that the rules give a single node, equal to the kernel's."""
        goals = self.rules.goals
        return points_of(goals, self._ranges, lambda number: self._input(number, node.row), lambda r: _use(node, r))

    def values_of(self, node: NodeInfo, sample_of: Callable[[str, int], SampleSteps | None]) -> list[NodeValue]:
        """Return the values that the rules compare on the node.

        A metric occurs several times if rules add different loads of pods to it.
        """
        rules = self.rules
        loads: dict[tuple[int, Load | None], None] = {}
        for test in (test for group in rules.groups for test in group):
            loads[test.value, test.load] = None
        for goal in rules.goals:
            loads[goal.value, goal.load] = None
            if goal.kind == LOW_RISK:
                loads[goal.deviation, None] = None
        return [self._value(number, load, node, sample_of) for number, load in loads]

    def _value(
        self, number: int, load: Load | None, node: NodeInfo, sample_of: Callable[[str, int], SampleSteps | None]
    ) -> NodeValue:
        read = self.rules.inputs[number]
        metric = read.of.metric if isinstance(read, Baseline) else read.metric
        used = expected(number, load, lambda n: self._input(n, node.row), lambda r: _use(node, r))
        self_load = 0.0 if used is None else used - self._input(number, node.row)
        steps = sample_of(metric, node.row)
        if steps is None:
            return NodeValue(metric, used, None, None, None, self_load, None)
        return NodeValue(metric, used, steps.read, steps.clamped, steps.smoothed, self_load, steps.age_s)

    def status(self, detail: int) -> Status:
        """Return the status for a reason number: unresolvable, since evicting pods would not change measured values."""
        return unresolvable(self.rules.reasons[detail])

    def _input(self, number: int, row: int) -> float:
        values = self._inputs[number]
        return float(values[row]) if row < len(values) else math.nan


def _use(node: NodeInfo, resource: int) -> tuple[int, int]:
    if resource == PODS:
        return len(node.pods), 1
    used = node.requested_of(resource)
    return used, used + node.free(resource)


def _ends(column: MetricColumn | None) -> tuple[float, float]:
    return (math.nan, math.nan) if column is None else (column.least, column.most)


def _is_empty(column: MetricColumn | None) -> bool:
    return column is None or math.isnan(column.most)
