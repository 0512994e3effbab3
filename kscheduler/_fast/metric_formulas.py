"""The formulas by which rules on live metrics judge one node, in plain Python; metric_rules.pyx has the same formulas.

All arithmetic is in doubles, each operation rounded by itself and in this order, so that every form has equal results.
An input that is not finite counts as absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

# What is asked of a value.
LESS: Final = 0
LESS_OR_EQUAL: Final = 1
GREATER: Final = 2
GREATER_OR_EQUAL: Final = 3
EQUAL: Final = 4
NOT_EQUAL: Final = 5

# What a value is good for.
MINIMIZE: Final = 0
MAXIMIZE: Final = 1
TARGET: Final = 2
LOW_RISK: Final = 3

PODS: Final = -1  # in place of a resource column: the number of pods

Inputs = Callable[[int], float]  # number of an input -> what the node has there
Use = Callable[[int], tuple[int, int]]  # resource column, or PODS -> (in use now, all there is)


class Load(NamedTuple):
    """The growth that a metric value is expected to have had since its sample, because of pods on the node."""

    resource: int  # column, or PODS
    gain: float  # growth of the value for the node's whole allocatable amount of the resource; for PODS, for each pod
    baseline: int  # number of the input with the usage at the time of the sample


class MetricTest(NamedTuple):
    value: int  # input
    operator: int
    bound: float
    fails_without: bool  # does it fail where there is no value?
    load: Load | None = None


class MetricGoal(NamedTuple):
    kind: int
    value: int  # input
    weight: int
    neutral: float  # points where there is no value
    excludes: bool  # or is the node rejected there?
    load: Load | None = None
    target: float = 0.0  # TARGET
    deviation: int = 0  # LOW_RISK: input
    margin: float = 1.0
    sensitivity: float = 1.0


def mark_of(groups: Sequence[Sequence[MetricTest]], goals: Sequence[MetricGoal], inputs: Inputs, use: Use) -> int:
    """Return 0 if the node is accepted, else 1 + the number of the first group of which no test holds.

    The number of groups is added if there was no value for any test of that group. If instead a goal has no value and
    excludes nodes without, the result is 1 + twice the number of groups + the number of the goal.
    """
    for number, group in enumerate(groups):
        holds = lacks_all = False
        if group:
            lacks_all = True
            for test in group:
                value = expected(test.value, test.load, inputs, use)
                if value is None:
                    holds = holds or not test.fails_without
                else:
                    lacks_all = False
                    holds = holds or compare(test.operator, value, test.bound)
        if not holds:
            return 1 + number + (len(groups) if lacks_all else 0)
    for number, goal in enumerate(goals):
        if goal.excludes and lacks(goal, inputs):
            return 1 + 2 * len(groups) + number
    return 0


def points_of(goals: Sequence[MetricGoal], ranges: Sequence[tuple[float, float]], inputs: Inputs, use: Use) -> int:
    """Return the node's score: the weighted mean of the points of all goals, 0..100, rounded; 0 without goals."""
    total = weights = 0.0
    for goal, (low, high) in zip(goals, ranges, strict=True):
        total += goal.weight * points_for(goal, low, high, inputs, use)
        weights += goal.weight
    if weights == 0.0:
        return 0
    return int(total / weights + 0.5)


def points_for(goal: MetricGoal, low: float, high: float, inputs: Inputs, use: Use) -> float:
    """Return the points for one goal; `low` and `high` are the values at the ends 0 and 1 of the goal's range."""
    if lacks(goal, inputs) or not low <= high:
        return goal.neutral
    value = expected(goal.value, goal.load, inputs, use)
    assert value is not None
    if goal.kind == MINIMIZE:
        return 100.0 if value <= low else 0.0 if value >= high else 100.0 * ((high - value) / (high - low))
    if goal.kind == MAXIMIZE:
        return 100.0 if value >= high else 0.0 if value <= low else 100.0 * ((value - low) / (high - low))
    if goal.kind == TARGET:
        return _packed(100.0 * share(value, low, high), 100.0 * min(share(goal.target, low, high), 1.0))
    return _without_risk(
        goal, min(share(value, low, high), 1.0), min(share(inputs(goal.deviation), 0.0, high - low), 1.0)
    )


def lacks(goal: MetricGoal, inputs: Inputs) -> bool:
    if not math.isfinite(inputs(goal.value)):
        return True
    return goal.kind == LOW_RISK and not math.isfinite(inputs(goal.deviation))


def expected(number: int, load: Load | None, inputs: Inputs, use: Use) -> float | None:
    """Return an input's value plus the growth by pods that came or left since its sample; None if it has no value.

    The result is not below zero.
    """
    value = inputs(number)
    if not math.isfinite(value):
        return None
    if load is None:
        return value
    before = inputs(load.baseline)
    used, whole = use(load.resource)
    if not math.isfinite(before) or whole <= 0:
        return value
    now = value + load.gain * ((float(used) - before) / float(whole))
    least = value if value < 0.0 else 0.0
    return now if now > least else least


def compare(operator: int, value: float, bound: float) -> bool:
    if operator == LESS:
        return value < bound
    if operator == LESS_OR_EQUAL:
        return value <= bound
    if operator == GREATER:
        return value > bound
    if operator == GREATER_OR_EQUAL:
        return value >= bound
    return value == bound if operator == EQUAL else value != bound


def share(value: float, low: float, high: float) -> float:
    """Return the position of a value in the range: 0 at the lower end or below, 1 at the upper end, more beyond it."""
    if value <= low:
        return 0.0
    return (value - low) / (high - low) if high > low else 2.0


def _packed(used: float, target: float) -> float:
    """Return points for a usage in percent: 100 at the target, rising below it and falling beyond it."""
    if used > target:
        return 0.0 if used > 100.0 else target * (100.0 - used) / (100.0 - target)
    return (100.0 - target) * used / target + target if target > 0.0 else 100.0


def _without_risk(goal: MetricGoal, mean: float, deviation: float) -> float:
    if goal.sensitivity >= 0.0 and goal.sensitivity != 1.0:
        deviation = math.pow(deviation, 1.0 / goal.sensitivity if goal.sensitivity > 0.0 else math.inf)
    deviation *= goal.margin
    deviation = 0.0 if deviation < 0.0 else min(deviation, 1.0)
    return (1.0 - (mean + deviation) / 2.0) * 100.0
