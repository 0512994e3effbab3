"""Validates a policy over live metrics, by field. The apiserver refuses the same by the CRD's schema.

`validate_policy` checks a single policy; the names that it refers to (metrics, schedulers) are checked if the caller
passes the existing ones. Sources and metrics are validated in `metric_source_validation`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from kscheduler.config.duration import Duration
from kscheduler.config.field_errors import duplicate, forbidden, invalid, not_supported, required
from kscheduler.config.metric_policy import (
    FilterRule,
    Freshness,
    PlanB,
    PolicySpec,
    Quantity,
    Range,
    Relaxation,
    ScoreRule,
    SelfLoad,
)
from kscheduler.config.quantity import parse_double, parse_exact
from kscheduler.input.int32 import MAX_INT32
from kscheduler.input.names import qualified_name_faults

GOALS = ("Minimize", "Maximize", "Target", "LowRisk")
OPERATORS = ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Equals", "NotEquals")
FALLBACKS = ("Neutral", "Exclude", "LastGood", "Requeue")
ACTIONS = ("Drop", "Profile")
MAX_RULES = 16  # of each list; the CRD's schema needs a bound to estimate what its own rules cost
MAX_STEPS = 8
MAX_WEIGHT = 100
MAX_SCORE = 100
MAX_FACTOR = 1_000_000.0

_NO_DURATION = Duration(0)
_NANO = 10**9
_MAX_INT64 = 2**63 - 1


class _References:
    """The names that a policy may refer to; None allows any."""

    def __init__(self, metrics: Collection[str] | None, profiles: Collection[str] | None) -> None:
        self._metrics = metrics
        self._profiles = profiles

    def metric(self, path: str, name: str) -> list[str]:
        if not name:
            return [required(path)]
        if self._metrics is not None and name not in self._metrics:
            return [invalid(path, name, "no metric of that name is configured")]
        return []

    def profile(self, path: str, name: str) -> list[str]:
        if self._profiles is not None and name not in self._profiles:
            return [invalid(path, name, "no profile of that scheduler name is configured")]
        return []


def validate_policy(
    path: str,
    policy: PolicySpec,
    *,
    metrics: Collection[str] | None,
    profiles: Collection[str] | None = None,
) -> list[str]:
    """Return all errors of a policy; `metrics` and `profiles` are the existing names, None to accept any."""
    known = _References(metrics, profiles)
    faults = too_many(f"{path}.score", policy.score, MAX_RULES) + too_many(f"{path}.filter", policy.filter, MAX_RULES)
    for index, score in enumerate(policy.score):
        faults += _validate_score(f"{path}.score[{index}]", score, known)
    for index, rule in enumerate(policy.filter):
        faults += _validate_filter(f"{path}.filter[{index}]", rule, known)
    faults += _validate_relaxations(f"{path}.relaxation", policy)
    faults += not_negative(f"{path}.decisionDeadline", policy.decision_deadline)
    if policy.plan_b is not None:
        faults += _validate_plan_b(f"{path}.planB", policy.plan_b, known)
    return faults


# --- score rules ----------------------------------------------------------------------------------------------------


def _validate_score(path: str, rule: ScoreRule, known: _References) -> list[str]:
    faults = known.metric(f"{path}.metric", rule.metric)
    if rule.goal not in GOALS:
        faults.append(not_supported(f"{path}.goal", rule.goal, GOALS))
    faults += _validate_target(path, rule)
    faults += _validate_deviation(f"{path}.deviation", rule, known)
    if rule.range is not None:
        faults += _validate_range(f"{path}.range", rule.range)
    faults += in_range(f"{path}.weight", rule.weight, 1, MAX_WEIGHT)
    faults += _validate_freshness(f"{path}.freshness", rule.freshness)
    faults += _validate_fallback(f"{path}.fallback", rule.fallback)
    faults += in_range(f"{path}.neutralScore", rule.neutral_score, 0, MAX_SCORE)
    if rule.self_load is not None:
        faults += _validate_self_load(f"{path}.selfLoad", rule.self_load)
    return faults


def _validate_target(path: str, rule: ScoreRule) -> list[str]:
    if rule.goal != "Target":
        return [] if rule.target is None else [forbidden(f"{path}.target", "only for the goal Target")]
    if rule.target is None:
        return [required(f"{path}.target", "for the goal Target")]
    faults = quantity_faults(f"{path}.target", rule.target)
    if faults or rule.range is None or _validate_range(path, rule.range):
        return faults
    low, high, target = (_comparable(value) for value in (rule.range.min, rule.range.max, rule.target))
    if not low < target < high:
        faults.append(invalid(f"{path}.target", rule.target, "must be between the range's min and max"))
    return faults


def _validate_deviation(path: str, rule: ScoreRule, known: _References) -> list[str]:
    deviation = rule.deviation
    if rule.goal != "LowRisk":
        return [] if deviation is None else [forbidden(path, "only for the goal LowRisk")]
    if deviation is None:
        return [required(path, "for the goal LowRisk")]
    faults = known.metric(f"{path}.metric", deviation.metric)
    faults += in_range(f"{path}.margin", deviation.margin, 0, MAX_FACTOR)
    return faults + in_range(f"{path}.sensitivity", deviation.sensitivity, 0.001, MAX_FACTOR)


def _validate_range(path: str, value: Range) -> list[str]:
    faults = quantity_faults(f"{path}.min", value.min) + quantity_faults(f"{path}.max", value.max)
    if faults:
        return faults
    ascends = _comparable(value.min) < _comparable(value.max) and parse_double(value.min) < parse_double(value.max)
    return [] if ascends else [invalid(f"{path}.max", value.max, "must be greater than min")]


# --- filter rules ---------------------------------------------------------------------------------------------------


def _validate_filter(path: str, rule: FilterRule, known: _References) -> list[str]:
    if not rule.any_of:
        return _validate_condition(path, rule, known)
    faults = too_many(f"{path}.anyOf", rule.any_of, MAX_RULES)
    if rule.metric or rule.operator or rule.value is not None or rule.self_load is not None:
        faults.append(forbidden(f"{path}.anyOf", "stands alone, without metric, operator, value and selfLoad"))
    if rule.fallback != "Neutral" or rule.freshness != Freshness():
        faults.append(forbidden(f"{path}.anyOf", "freshness and fallback belong to its rules"))
    for index, one in enumerate(rule.any_of):
        child = f"{path}.anyOf[{index}]"
        if one.any_of:
            faults.append(forbidden(f"{child}.anyOf", "no anyOf within anyOf"))
        else:
            faults += _validate_condition(child, one, known)
    return faults


def _validate_condition(path: str, rule: FilterRule, known: _References) -> list[str]:
    faults = known.metric(f"{path}.metric", rule.metric)
    if not rule.operator:
        faults.append(required(f"{path}.operator"))
    elif rule.operator not in OPERATORS:
        faults.append(not_supported(f"{path}.operator", rule.operator, OPERATORS))
    if rule.value is None:
        faults.append(required(f"{path}.value"))
    else:
        faults += quantity_faults(f"{path}.value", rule.value)
    faults += _validate_freshness(f"{path}.freshness", rule.freshness)
    faults += _validate_fallback(f"{path}.fallback", rule.fallback)
    if rule.self_load is not None:
        faults += _validate_self_load(f"{path}.selfLoad", rule.self_load)
    return faults


# --- what both kinds of rules have ----------------------------------------------------------------------------------


def _validate_freshness(path: str, value: Freshness) -> list[str]:
    faults = not_negative(f"{path}.maxAge", value.max_age)
    faults += in_range(f"{path}.cadences", value.cadences, 1, MAX_FACTOR)
    faults += not_negative(f"{path}.atLeast", value.at_least)
    faults += positive(f"{path}.atMost", value.at_most)
    if not faults and value.at_most < value.at_least:
        faults.append(invalid(f"{path}.atMost", value.at_most, "must not be less than atLeast"))
    return faults


def _validate_fallback(path: str, value: str) -> list[str]:
    return [] if value in FALLBACKS else [not_supported(path, value, FALLBACKS)]


def _validate_self_load(path: str, value: SelfLoad) -> list[str]:
    faults = []
    if value.resource and value.per_pod is not None:
        faults.append(forbidden(f"{path}.perPod", "must not be given beside resource"))
    elif not value.resource and value.per_pod is None:
        faults.append(required(path, "exactly one of resource and perPod"))
    if value.resource:
        faults += [invalid(f"{path}.resource", value.resource, text) for text in qualified_name_faults(value.resource)]
    if value.per_pod is not None:
        faults += quantity_faults(f"{path}.perPod", value.per_pod)
    faults += in_range(f"{path}.factor", value.factor, 0, MAX_FACTOR)
    return faults + in_range(f"{path}.per", value.per, 0, MAX_FACTOR)


# --- failsafes ------------------------------------------------------------------------------------------------------


def _validate_relaxations(path: str, policy: PolicySpec) -> list[str]:
    faults = too_many(path, policy.relaxation, MAX_STEPS)
    if policy.relaxation and not policy.filter:
        faults.append(forbidden(path, "there are no filter rules"))
    filtered = _filtered_metrics(policy.filter)
    before = Duration(-1)
    for index, step in enumerate(policy.relaxation):
        child = f"{path}[{index}]"
        faults += not_negative(f"{child}.after", step.after)
        if step.after <= before:
            faults.append(invalid(f"{child}.after", step.after, "must be later than the step before"))
        before = step.after
        faults += _validate_step(child, step, filtered)
    return faults


def _filtered_metrics(rules: Sequence[FilterRule]) -> set[str]:
    return {one.metric for rule in rules for one in (rule, *rule.any_of) if one.metric}


def _validate_step(path: str, step: Relaxation, filtered: Collection[str]) -> list[str]:
    faults = too_many(f"{path}.loosen", step.loosen, MAX_RULES) + too_many(f"{path}.drop", step.drop, MAX_RULES)
    if not (step.loosen or step.drop or step.drop_all):
        faults.append(required(path, "one of loosen, drop and dropAll"))
    if step.drop_all and (step.loosen or step.drop):
        faults.append(forbidden(f"{path}.dropAll", "leaves nothing to loosen or drop"))
    seen: set[str] = set()
    for index, loosening in enumerate(step.loosen):
        faults += _once(f"{path}.loosen[{index}].metric", loosening.metric, seen, filtered)
        faults += quantity_faults(f"{path}.loosen[{index}].value", loosening.value)
    for index, metric in enumerate(step.drop):
        faults += _once(f"{path}.drop[{index}]", metric, seen, filtered)
    return faults


def _once(path: str, metric: str, seen: set[str], filtered: Collection[str]) -> list[str]:
    if metric in seen:
        return [duplicate(path, metric)]
    seen.add(metric)
    if not metric:
        return [required(path)]
    return [] if metric in filtered else [invalid(path, metric, "no filter rule is on this metric")]


def _validate_plan_b(path: str, plan: PlanB, known: _References) -> list[str]:
    faults = in_range(f"{path}.afterFailures", plan.after_failures, 1, MAX_INT32)
    if plan.action not in ACTIONS:
        faults.append(not_supported(f"{path}.action", plan.action, ACTIONS))
    elif plan.action != "Profile":
        if plan.profile:
            faults.append(forbidden(f"{path}.profile", "only for the action Profile"))
    elif not plan.profile:
        faults.append(required(f"{path}.profile", "for the action Profile"))
    else:
        faults += known.profile(f"{path}.profile", plan.profile)
    return faults


# --- values ---------------------------------------------------------------------------------------------------------


def quantity_faults(path: str, value: Quantity) -> list[str]:
    try:
        parse_exact(value)
    except ValueError as error:
        return [invalid(path, value, str(error))]
    return []


def in_range(path: str, value: float, low: float, high: float) -> list[str]:
    """Return the error of a value below `low` or above `high`. NaN is in no range."""
    return [] if low <= value <= high else [invalid(path, value, f"not in valid range [{low}, {high}]")]


def not_negative(path: str, value: Duration) -> list[str]:
    return [] if value >= _NO_DURATION else [invalid(path, value, "must not be negative")]


def positive(path: str, value: Duration) -> list[str]:
    return [] if value > _NO_DURATION else [invalid(path, value, "must be greater than zero")]


def too_many(path: str, items: Sequence[object], most: int) -> list[str]:
    return [f"{path}: Too many: {len(items)}: must have at most {most} items"] if len(items) > most else []


def _comparable(value: Quantity) -> Fraction:
    """Return a quantity as the apiserver compares it: rounded to billionths away from zero, and capped."""
    exact = parse_exact(value)
    nano = -(-abs(exact) * _NANO // 1)
    size = min(Fraction(nano, _NANO), Fraction(_MAX_INT64))
    return size if exact >= 0 else -size
