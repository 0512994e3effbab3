from __future__ import annotations

from typing import Any

from kscheduler._fast.metric_formulas import LESS, LOW_RISK, MINIMIZE, PODS, Load, MetricGoal, MetricTest
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import (
    Deviation,
    FilterRule,
    Freshness,
    Loosening,
    PolicySpec,
    Range,
    Relaxation,
    ScoreRule,
    SelfLoad,
)
from kscheduler.framework.plugins.metricpolicy.rules import Baseline, Rules, Values, compile_rules
from kscheduler.snapshot.node_table import NodeTable

LOAD = Values("load", Freshness())


def compiled(step: int = 0, *, is_overdue: bool = False, **policy: Any) -> Rules:
    return compile_rules(PolicySpec(**policy), NodeTable().resources, step, is_overdue=is_overdue)


def below(metric: str, value: Any, **reported: Any) -> FilterRule:
    return FilterRule(metric=metric, operator="LessThan", value=value, **reported)


def bounds(rules: Rules) -> list[list[float]]:
    return [[test.bound for test in group] for group in rules.groups]


def test_rules_on_one_metric_read_one_input_and_quantities_are_doubles() -> None:
    rules = compiled(
        filter=(below("load", "500m"),), score=(ScoreRule(metric="load", range=Range("1", "2k"), weight=3),)
    )
    assert rules.inputs == [LOAD]
    assert rules.groups == [[MetricTest(0, LESS, 0.5, False)]]
    assert rules.goals == [MetricGoal(MINIMIZE, 0, 3, 50.0, False)]
    assert rules.ranges == [(1.0, 2000.0)]


def test_another_freshness_is_another_input() -> None:
    fresher = Freshness(max_age=Duration.of_seconds(5))
    rules = compiled(filter=(below("load", 1), below("load", 2, freshness=fresher)))
    assert rules.inputs == [LOAD, Values("load", fresher)]


def test_without_a_range_it_is_that_of_the_values() -> None:
    assert compiled(score=(ScoreRule(metric="load"),)).ranges == [LOAD]


def test_risk_reads_what_it_varies_by() -> None:
    rules = compiled(score=(ScoreRule(metric="load", goal="LowRisk", deviation=Deviation("varies", 2.0, 3.0)),))
    assert rules.inputs == [LOAD, Values("varies", Freshness())]
    assert rules.goals == [MetricGoal(LOW_RISK, 0, 1, 50.0, False, None, 0.0, 1, 2.0, 3.0)]


def test_self_load_is_a_share_of_the_node_or_so_much_a_pod() -> None:
    by_share = ScoreRule(metric="load", self_load=SelfLoad(resource="memory", factor=0.5, per=100.0))
    by_pod = ScoreRule(metric="load", self_load=SelfLoad(per_pod="20m"))
    rules = compiled(score=(by_share, by_pod))
    assert rules.inputs == [LOAD, Baseline(1, LOAD), Baseline(PODS, LOAD)]
    assert [goal.load for goal in rules.goals] == [Load(1, 50.0, 1), Load(PODS, 0.02, 2)]
    assert not rules.filters_by_load
    assert compiled(filter=(below("load", 1, self_load=SelfLoad(resource="cpu")),)).filters_by_load


def test_fallbacks_say_what_a_node_without_a_value_is() -> None:
    for fallback, excludes, awaited in (
        ("Neutral", False, False), ("LastGood", False, False), ("Exclude", True, False), ("Requeue", True, True),
    ):  # fmt: skip
        rules = compiled(
            filter=(below("load", 1, fallback=fallback),), score=(ScoreRule(metric="x", fallback=fallback),)
        )
        assert rules.groups[0][0].fails_without is excludes
        assert rules.goals[0].excludes is excludes
        assert [each.metric for each in rules.awaited] == (["load", "x"] if awaited else [])
        assert rules.inputs[0] == Values("load", Freshness(), last_good=fallback == "LastGood")


def test_a_pod_that_has_waited_long_enough_takes_what_there_is() -> None:
    policy: dict[str, Any] = {
        "filter": (below("load", 1, fallback="Requeue"),),
        "score": (ScoreRule(metric="x", fallback="Exclude"),),
    }
    rules = compiled(is_overdue=True, **policy)
    assert not rules.groups[0][0].fails_without
    assert not rules.goals[0].excludes
    assert rules.awaited == []


def test_steps_add_up() -> None:
    policy: dict[str, Any] = {
        "filter": (below("load", 1), FilterRule(any_of=(below("load", 2), below("heat", 3))), below("heat", 4)),
        "score": (ScoreRule(metric="heat", fallback="Exclude"),),
        "relaxation": (
            Relaxation(loosen=(Loosening("load", 9),)),
            Relaxation(drop=("heat",)),
            Relaxation(drop_all=True),
        ),
    }
    assert bounds(compiled(0, **policy)) == [[1.0], [2.0, 3.0], [4.0]]
    assert bounds(compiled(1, **policy)) == [[9.0], [9.0, 3.0], [4.0]]
    assert bounds(compiled(2, **policy)) == [[9.0]], "a choice with a metric that is dropped need not be made"
    assert bounds(compiled(3, **policy)) == []
    assert [compiled(step, **policy).filters for step in range(4)] == [True, True, True, False]
    assert [compiled(step, **policy).goals[0].excludes for step in range(4)] == [True, True, False, False]


def test_reasons_are_in_the_order_of_the_kernels_details() -> None:
    rules = compiled(
        filter=(
            below("load", "500m"),
            FilterRule(any_of=(below("a", 1), FilterRule(metric="b", operator="Equals", value=2))),
        ),
        score=(ScoreRule(metric="heat"),),
    )
    assert rules.reasons == [
        "node(s) didn't satisfy metric rule load < 500m",
        "node(s) didn't satisfy metric rule a < 1 or b == 2",
        "node(s) had no fresh value of metric load",
        "node(s) had no fresh value of metric a or b",
        "node(s) had no fresh value of metric heat",
    ]
