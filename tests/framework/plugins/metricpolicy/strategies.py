"""Metric policies and samples as Hypothesis draws them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import (
    Deviation,
    FilterRule,
    PlanB,
    PolicySpec,
    Range,
    Relaxation,
    ScoreRule,
    SelfLoad,
)

METRICS = ("load", "power", "spread")
values = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0, -1.0, math.nan, math.inf, -math.inf]))
metrics = st.sampled_from(METRICS)
fallbacks = st.sampled_from(["Neutral", "Neutral", "Exclude", "LastGood", "Requeue"])
self_loads = st.none() | st.sampled_from(
    [SelfLoad(resource="cpu"), SelfLoad(resource="memory", factor=0.5, per=100.0), SelfLoad(per_pod="50m")]
)
conditions = st.builds(
    FilterRule,
    metric=metrics,
    operator=st.sampled_from(["LessThan", "GreaterThanOrEqual", "NotEquals"]),
    value=st.sampled_from(["500m", 0.9, 0]),
    fallback=fallbacks,
    self_load=self_loads,
)
filters = conditions | st.builds(
    lambda rules: FilterRule(any_of=tuple(rules)), st.lists(conditions, min_size=1, max_size=2)
)
ranges = st.none() | st.just(Range(min=0, max=1))
scores = st.one_of(
    st.builds(
        ScoreRule, metric=metrics, goal=st.sampled_from(["Minimize", "Maximize"]), range=ranges,
        weight=st.integers(1, 5), fallback=fallbacks, self_load=self_loads,
    ),
    st.builds(
        ScoreRule, metric=metrics, goal=st.just("Target"), target=st.just("400m"), range=ranges, self_load=self_loads
    ),
    st.builds(
        ScoreRule, metric=metrics, goal=st.just("LowRisk"), deviation=st.just(Deviation("spread", 1.0, 2.0)),
        range=ranges, self_load=self_loads,
    ),
)  # fmt: skip
policies = st.builds(
    PolicySpec,
    score=st.lists(scores, max_size=3).map(tuple),
    filter=st.lists(filters, max_size=2).map(tuple),
    relaxation=st.sampled_from(
        [(), (Relaxation(drop=("load",)), Relaxation(after=Duration.of_seconds(5), drop_all=True))]
    ),
    decision_deadline=st.sampled_from([Duration(0), Duration.of_seconds(3)]),
    plan_b=st.none() | st.just(PlanB(after_failures=2)),
)
number = st.integers(0, 4)
by_node = st.dictionaries(number, values, min_size=1, max_size=5)
