"""Translates the TASPolicy objects of telemetry-aware scheduling to the rules of a metric policy.

- `scheduleonmetric` orders nodes by its first rule and becomes a score rule. Telemetry-aware scheduling ranked nodes
  from 10 down; here values are scaled between the lowest and the highest of all nodes. A node without a value scores 0.
- `dontschedule` lists conditions that must not hold and becomes negated filter rules. A node without a value passes.
- `deschedule` and `labeling` do not concern the placement of pods and are ignored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kscheduler.config.decode import Faults, decode
from kscheduler.config.field_errors import invalid, not_supported, required
from kscheduler.config.metric_policy import FilterRule, PolicySpec, ScoreRule
from kscheduler.config.types import ConfigStruct, Int64

OPERATORS = ("Equals", "LessThan", "GreaterThan")
LOGICAL_OPERATORS = ("allOf", "anyOf")
PLACING = ("scheduleonmetric", "dontschedule")
MAX_RULES = 64

_NEGATED = {"Equals": "NotEquals", "LessThan": "GreaterThanOrEqual", "GreaterThan": "LessThanOrEqual"}
_GOALS = {"LessThan": "Minimize", "GreaterThan": "Maximize"}


class TASRule(ConfigStruct, frozen=True):
    metricname: str = ""
    operator: str = ""
    target: Int64 = 0
    labels: tuple[str, ...] = ()


class TASStrategy(ConfigStruct, frozen=True):
    policy_name: str = ""
    logical_operator: str = ""  # "" is anyOf
    rules: tuple[TASRule, ...] = ()


class TASSpec(ConfigStruct, frozen=True):
    strategies: dict[str, TASStrategy] = msgspec.field(default_factory=dict)


class Translation(NamedTuple):
    """The result of a translation. `policy` is None if there are faults."""

    policy: PolicySpec | None
    faults: tuple[str, ...]  # messages with the path of the field
    notes: tuple[str, ...]  # settings of the object that are ignored


def translate(document: Any) -> Translation:
    """Translate the spec of a TASPolicy to a metric policy."""
    found = Faults()
    spec = decode(TASSpec, document, "spec", faults=found)
    faults = [*found.wrong, *found.unknown]
    if spec is None or faults:
        return Translation(None, tuple(faults or [required("spec")]), ())
    for name in PLACING:
        if name in spec.strategies:
            faults += _validate(f"spec.strategies[{name}]", spec.strategies[name])
    if faults:
        return Translation(None, tuple(faults), ())
    order, forbid = (spec.strategies.get(name, TASStrategy()) for name in PLACING)
    policy = PolicySpec(score=_scores(order), filter=_filters(forbid))
    return Translation(policy, (), tuple(_notes(spec, order)))


def _scores(strategy: TASStrategy) -> tuple[ScoreRule, ...]:
    return tuple(
        ScoreRule(metric=rule.metricname, goal=_GOALS[rule.operator], neutral_score=0)
        for rule in strategy.rules[:1]
        if rule.operator in _GOALS
    )


def _filters(strategy: TASStrategy) -> tuple[FilterRule, ...]:
    """Return filter rules that reject a node if any rule of the strategy holds or, with allOf, if all hold."""
    rules = tuple(
        FilterRule(metric=rule.metricname, operator=_NEGATED[rule.operator], value=rule.target)
        for rule in strategy.rules
    )
    return (FilterRule(any_of=rules),) if strategy.logical_operator == "allOf" and rules else rules


def _notes(spec: TASSpec, order: TASStrategy) -> list[str]:
    others = sorted(name for name in spec.strategies if name not in PLACING)
    notes = [f"strategy {name} is not carried out by this scheduler" for name in others]
    if len(order.rules) > 1:
        notes.append("strategy scheduleonmetric: only its first rule is read")
    if order.rules and order.rules[0].operator not in _GOALS:
        notes.append(f"strategy scheduleonmetric: {order.rules[0].operator} orders no nodes")
    return notes


def _validate(path: str, strategy: TASStrategy) -> list[str]:
    faults = []
    if strategy.logical_operator not in ("", *LOGICAL_OPERATORS):
        faults.append(not_supported(f"{path}.logicalOperator", strategy.logical_operator, LOGICAL_OPERATORS))
    if len(strategy.rules) > MAX_RULES:
        faults.append(f"{path}.rules: Too many: {len(strategy.rules)}: must have at most {MAX_RULES} items")
    for index, rule in enumerate(strategy.rules):
        child = f"{path}.rules[{index}]"
        if not rule.metricname:
            faults.append(required(f"{child}.metricname"))
        elif "/" in rule.metricname or "\\" in rule.metricname:
            faults.append(invalid(f"{child}.metricname", rule.metricname, "must have no '/' and no '\\'"))
        if rule.operator not in OPERATORS:
            faults.append(not_supported(f"{child}.operator", rule.operator, OPERATORS))
    return faults
