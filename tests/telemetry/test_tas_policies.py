"""TASPolicy objects in terms of our rules."""

from __future__ import annotations

import pytest
import yaml

from kscheduler.config.metric_policy import FilterRule, PolicySpec, ScoreRule
from kscheduler.telemetry.tas_policies import translate

# As in its documentation, in form.
WHOLE = """
strategies:
  deschedule:
    logicalOperator: allOf
    rules: [{metricname: temperature, operator: GreaterThan, target: 80}]
  dontschedule:
    logicalOperator: anyOf
    rules:
    - {metricname: temperature, operator: GreaterThan, target: 80}
    - {metricname: freeRAM, operator: LessThan, target: 200}
    - {metricname: broken, operator: Equals, target: -1}
  scheduleonmetric:
    rules: [{metricname: freeRAM, operator: GreaterThan}]
  labeling:
    rules: [{metricname: temperature, operator: GreaterThan, target: 100, labels: ["a=1"]}]
"""


def policy_of(text: str) -> PolicySpec:
    translation = translate(yaml.safe_load(text))
    assert translation.policy is not None, translation.faults
    return translation.policy


def test_what_must_not_hold_is_negated_and_what_orders_nodes_is_a_score() -> None:
    assert policy_of(WHOLE) == PolicySpec(
        score=(ScoreRule(metric="freeRAM", goal="Maximize", neutral_score=0),),
        filter=(
            FilterRule(metric="temperature", operator="LessThanOrEqual", value=80),
            FilterRule(metric="freeRAM", operator="GreaterThanOrEqual", value=200),
            FilterRule(metric="broken", operator="NotEquals", value=-1),
        ),
    )
    assert policy_of(WHOLE).metrics() == ["freeRAM", "temperature", "broken"]


def test_all_of_turns_a_node_away_only_if_every_rule_holds() -> None:
    policy = policy_of(
        """
        strategies:
          dontschedule:
            logicalOperator: allOf
            rules: [{metricname: a, operator: GreaterThan, target: 1}, {metricname: b, operator: LessThan}]
        """
    )
    assert policy.filter == (
        FilterRule(
            any_of=(
                FilterRule(metric="a", operator="LessThanOrEqual", value=1),
                FilterRule(metric="b", operator="GreaterThanOrEqual", value=0),
            )
        ),
    )
    assert policy.metrics() == ["a", "b"]


def test_what_is_not_carried_out_is_noted() -> None:
    assert translate(yaml.safe_load(WHOLE)).notes == (
        "strategy deschedule is not carried out by this scheduler",
        "strategy labeling is not carried out by this scheduler",
    )
    rules = "[{metricname: a, operator: Equals}, {metricname: b, operator: LessThan}]"
    order = f"strategies: {{scheduleonmetric: {{rules: {rules}}}}}"
    assert translate(yaml.safe_load(order)).notes == (
        "strategy scheduleonmetric: only its first rule is read",
        "strategy scheduleonmetric: Equals orders no nodes",
    )
    assert policy_of(order).score == ()


def test_empty_strategies_ask_for_nothing() -> None:
    assert policy_of("strategies: {}") == PolicySpec()
    assert policy_of("strategies: {dontschedule: {logicalOperator: allOf, rules: []}}") == PolicySpec()


RULES = "spec.strategies[dontschedule].rules"
FAULTS = {
    "rules: [{metricname: a, operator: Above}]": (
        f'{RULES}[0].operator: Unsupported value: "Above": supported values: "Equals", "LessThan", "GreaterThan"'
    ),
    "rules: [{operator: Equals}]": f"{RULES}[0].metricname: Required value",
    "rules: [{metricname: a/b, operator: Equals}]": (
        f"{RULES}[0].metricname: Invalid value: \"a/b\": must have no '/' and no '\\'"
    ),
    "rules: [{metricname: a, operator: Equals, target: 0.5}]": (
        f"{RULES}[0].target: expected an integer, got the number 0.5"
    ),
    "{logicalOperator: oneOf, rules: []}": (
        'spec.strategies[dontschedule].logicalOperator: Unsupported value: "oneOf": supported values: "allOf", "anyOf"'
    ),
    "{rule: []}": 'unknown field "spec.strategies[dontschedule].rule"',
}


@pytest.mark.parametrize(("strategy", "fault"), FAULTS.items(), ids=FAULTS)
def test_a_fault_is_named_by_its_field(strategy: str, fault: str) -> None:
    body = strategy if strategy.startswith("{") else f"{{{strategy}}}"
    translation = translate(yaml.safe_load(f"strategies: {{dontschedule: {body}}}"))
    assert translation.policy is None
    assert translation.faults == (fault,)


@pytest.mark.parametrize("spec", [None, [], "x", {"strategies": []}])
def test_what_is_no_spec_is_a_fault(spec: object) -> None:
    assert translate(spec).policy is None
