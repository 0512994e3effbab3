"""Compiles a metric policy for the kernel: groups of tests, goals, the inputs they read, and messages for users.

A policy is compiled for pods that have taken a number of its relaxation steps, and whose decision deadline may be over.
Where a rule has no value on a node, its fallback decides:

- Neutral: a filter rule holds, and a score rule gives its neutral score.
- LastGood: the latest value counts, however old; if there never was one, as Neutral.
- Exclude: the node is rejected.
- Requeue: the node is rejected; and while no node has a value, PreFilter rejects the pod.

Relaxation steps add up. A step replaces the bound of the rules on a metric, or drops the groups of filter rules that
name a metric; score rules on that metric then reject no node either. Once a pod's decision deadline is over, Exclude
and Requeue act as Neutral, for all its rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kscheduler._fast.metric_formulas import (
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    LOW_RISK,
    MAXIMIZE,
    MINIMIZE,
    NOT_EQUAL,
    PODS,
    TARGET,
    Load,
    MetricGoal,
    MetricTest,
)
from kscheduler.config.metric_policy import FilterRule, Freshness, PolicySpec, Range, ScoreRule, SelfLoad
from kscheduler.config.quantity import parse_double
from kscheduler.framework.plugins.metricpolicy.pod_waits import OF_RULE, OF_VALUES
from kscheduler.snapshot.resource_columns import ResourceColumns

OPERATORS = {
    "LessThan": (LESS, "<"),
    "LessThanOrEqual": (LESS_OR_EQUAL, "<="),
    "GreaterThan": (GREATER, ">"),
    "GreaterThanOrEqual": (GREATER_OR_EQUAL, ">="),
    "Equals": (EQUAL, "=="),
    "NotEquals": (NOT_EQUAL, "!="),
}
GOALS = {"Minimize": MINIMIZE, "Maximize": MAXIMIZE, "Target": TARGET, "LowRisk": LOW_RISK}
EXCLUDING = ("Exclude", "Requeue")


@dataclass(frozen=True, slots=True)
class Values:
    """An input of the kernel: the values of a metric by node that are fresh enough, or with `last_good` of any age."""

    metric: str
    freshness: Freshness
    last_good: bool = False


@dataclass(frozen=True, slots=True)
class Baseline:
    """An input of the kernel: the usage of a resource (its column, or PODS) when the metric's values were sampled."""

    resource: int
    of: Values


Input = Values | Baseline


@dataclass(slots=True)
class Rules:
    """The filters and goals of a metric policy (MetricPolicy, see LIVE_METRICS.md) as inputs of the compiled kernel.

    The kernel `_fast/metric_rules` takes columns of numbers by node, and tests and goals that name a column by its
    index in `inputs`.
    """

    groups: list[list[MetricTest]] = field(default_factory=list)
    goals: list[MetricGoal] = field(default_factory=list)
    ranges: list[tuple[float, float] | Values] = field(default_factory=list)  # of each goal; Values: their min and max
    inputs: list[Input] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # the kernel's reason number (detail) -> message
    fallbacks: list[tuple[Values, str]] = field(default_factory=list)  # (what a rule reads, its fallback without it)
    awaited: list[Values] = field(default_factory=list)  # while no node has a value of one of these, pods wait
    lacks_resource: bool = False  # no node has, and no pod asks for, a resource that counts as load: it is left out

    @property
    def filters(self) -> bool:
        return bool(self.groups) or any(goal.excludes for goal in self.goals)

    @property
    def filters_by_load(self) -> bool:
        """True if pods that come to nodes or leave them change which nodes the rules reject."""
        return any(test.load is not None for group in self.groups for test in group)


def compile_rules(policy: PolicySpec, resources: ResourceColumns, step: int, *, is_overdue: bool) -> Rules:
    """Compile the rules of a valid policy for pods that have taken `step` relaxation steps.

    `is_overdue`: the pods' decision deadline is over.
    """
    return _Compiler(policy, resources, step, is_overdue).compile()


class _Compiler:
    def __init__(self, policy: PolicySpec, resources: ResourceColumns, step: int, is_overdue: bool) -> None:
        self._policy = policy
        self._resources = resources
        self._is_overdue = is_overdue
        steps = policy.relaxation[:step]
        self._bounds = {loosened.metric: loosened.value for taken in steps for loosened in taken.loosen}
        self._dropped = {metric for taken in steps for metric in taken.drop}
        self._drops_all = any(taken.drop_all for taken in steps)
        self._numbers: dict[Input, int] = {}  # input -> its number
        self._rules = Rules()

    def compile(self) -> Rules:
        rules = self._rules
        violated, missing = [], []
        for rule in self._policy.filter:
            group = rule.conditions
            if self._drops_all or any(one.metric in self._dropped for one in group):
                continue
            rules.groups.append([self._test(one) for one in group])
            text = " or ".join(self._text(one) for one in group)
            violated.append(f"node(s) {OF_RULE}{text}")
            missing.append(f"node(s) had no {OF_VALUES}{' or '.join(one.metric for one in group)}")
        unknown = []
        for score in self._policy.score:
            self._goal(score)
            unknown.append(f"node(s) had no {OF_VALUES}{score.metric}")
        rules.reasons = violated + missing + unknown
        rules.inputs = list(self._numbers)
        return rules

    # --- rules ---

    def _test(self, rule: FilterRule) -> MetricTest:
        values, excludes = self._values(rule.metric, rule.freshness, self._fallback(rule.fallback))
        bound = self._bounds.get(rule.metric, rule.value if rule.value is not None else 0)
        load = self._load(rule.self_load, values)
        return MetricTest(self._number(values), OPERATORS[rule.operator][0], parse_double(bound), excludes, load)

    def _text(self, rule: FilterRule) -> str:
        return f"{rule.metric} {OPERATORS[rule.operator][1]} {self._bounds.get(rule.metric, rule.value)}"

    def _goal(self, rule: ScoreRule) -> None:
        fallback = self._fallback(rule.fallback)
        if self._drops_all or rule.metric in self._dropped:
            fallback = "Neutral" if fallback in EXCLUDING else fallback
        values, excludes = self._values(rule.metric, rule.freshness, fallback)
        deviation = rule.deviation
        varies = values
        if deviation is not None:
            varies, _ = self._values(deviation.metric, rule.freshness, fallback)
        self._rules.goals.append(
            MetricGoal(
                kind=GOALS[rule.goal],
                value=self._number(values),
                weight=rule.weight,
                neutral=float(rule.neutral_score),
                excludes=excludes,
                load=self._load(rule.self_load, values),
                target=0.0 if rule.target is None else parse_double(rule.target),
                deviation=self._number(varies),
                margin=1.0 if deviation is None else deviation.margin,
                sensitivity=1.0 if deviation is None else deviation.sensitivity,
            )
        )
        self._rules.ranges.append(values if rule.range is None else _range(rule.range))

    # --- what rules have in common ---

    def _fallback(self, fallback: str) -> str:
        return "Neutral" if self._is_overdue and fallback in EXCLUDING else fallback

    def _values(self, metric: str, freshness: Freshness, fallback: str) -> tuple[Values, bool]:
        """Return what a rule reads of a metric, and whether nodes without a value are rejected."""
        values = Values(metric, freshness, last_good=fallback == "LastGood")
        self._rules.fallbacks.append((values, fallback))
        if fallback == "Requeue":
            self._rules.awaited.append(values)
        return values, fallback in EXCLUDING

    def _load(self, load: SelfLoad | None, values: Values) -> Load | None:
        if load is None:
            return None
        if load.per_pod is not None:
            return Load(PODS, parse_double(load.per_pod), self._number(Baseline(PODS, values)))
        resource = self._resources.find(load.resource)
        if resource is None:  # a column for each name that policies make up would cost all nodes memory
            self._rules.lacks_resource = True
            return None
        return Load(resource, load.factor * load.per, self._number(Baseline(resource, values)))

    def _number(self, wanted: Input) -> int:
        return self._numbers.setdefault(wanted, len(self._numbers))


def _range(given: Range) -> tuple[float, float]:
    return parse_double(given.min), parse_double(given.max)
