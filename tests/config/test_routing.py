"""RoutingConfigurations: how they are read, and every refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.config.routing import RoutingConfig, load_routing
from kscheduler.config.types import Profile
from kscheduler.errors import ConfigError
from tests.support.routing import HEAD, PROFILES, parse_routing


def routing(body: str, profiles: tuple[Profile, ...] = PROFILES) -> RoutingConfig:
    return parse_routing(HEAD + body, profiles)


def refusal(body: str, head: str = HEAD) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_routing(head + body, PROFILES)
    source, _, message = str(caught.value).partition(": ")
    assert source.endswith("/r.yaml")
    return message


def test_rules_are_read_with_their_defaults() -> None:
    config = routing("rules: [{name: batch, schedulerName: kscheduler, podSelector: {matchLabels: {a: b}}}]")
    assert (config.bind_address, config.port) == ("0.0.0.0", 9443)
    assert config.rules[0].replaces == ("default-scheduler",)
    assert config.rules[0].pod_selector is not None
    assert config.rules[0].pod_selector.match_labels == {"a": "b"}


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "routing.yaml"
    path.write_text(HEAD + "rules: []")
    with pytest.raises(ConfigError, match=r"routing\.yaml: rules: Required value$"):
        load_routing(str(path))


def test_another_kind_of_file_is_refused() -> None:
    assert refusal("", "kind: KubeSchedulerConfiguration\n") == (
        'apiVersion: expected "kscheduler.io/v1alpha1", got null'
    )
    assert refusal("kind: X", "apiVersion: kscheduler.io/v1alpha1\n") == (
        'kind: expected "RoutingConfiguration", got the string "X"'
    )


RULES = {  # case -> rule, message after the rule's path
    "no name": ("{schedulerName: a}", ".name: Required value"),
    "no scheduler": ("{name: a}", ".schedulerName: Required value"),
    "nothing to replace": (
        "{name: a, schedulerName: a, replaces: []}",
        ".replaces: Required value: a rule that may replace no scheduler does nothing",
    ),
    "plan B that changes nothing": (
        "{name: a, schedulerName: default-scheduler, planB: default-scheduler}",
        '.planB: Invalid value: "default-scheduler": must be another scheduler than schedulerName',
    ),
    "plan B of another's policies": (
        "{name: a, schedulerName: other, planB: default-scheduler}",
        '.planB: Invalid value: "default-scheduler": schedulerName must be a profile of this scheduler with arguments '
        "of the plugin MetricPolicy",
    ),
    "operator": (
        "{name: a, schedulerName: a, podSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}",
        '.podSelector.matchExpressions[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn", '
        '"Exists", "DoesNotExist"',
    ),
    "values missing": (
        "{name: a, schedulerName: a, namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}",
        ".namespaceSelector.matchExpressions[0].values: Required value: for the operators In and NotIn",
    ),
    "values too many": (
        "{name: a, schedulerName: a, podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}",
        '.podSelector.matchExpressions[0].values: Invalid value: ["b"]: must be empty for Exists and DoesNotExist',
    ),
}


@pytest.mark.parametrize(("rule", "message"), RULES.values(), ids=RULES)
def test_a_rule_is_refused_by_field(rule: str, message: str) -> None:
    assert refusal(f"rules: [{rule}]") == f"rules[0]{message}"


@pytest.mark.parametrize(
    "rule",
    [
        "{name: A B, schedulerName: a}",
        "{name: a, schedulerName: a/b}",
        "{name: a, schedulerName: a, namespaces: ['']}",
        "{name: a, schedulerName: a, replaces: [A]}",
        "{name: a, schedulerName: a, podSelector: {matchLabels: {a: b/c}}}",
        "{name: a, schedulerName: a, podSelector: {matchLabels: {-a: b}}}",
    ],
)
def test_names_and_labels_are_what_kubernetes_allows(rule: str) -> None:
    assert refusal(f"rules: [{rule}]").startswith("rules[0].")


def test_names_of_rules_are_given_once_and_files_and_port_are_right() -> None:
    rules = "rules: [{name: a, schedulerName: b}, {name: a, schedulerName: c}]"
    assert refusal(rules) == 'rules[1].name: Duplicate value: "a"'
    head = "apiVersion: kscheduler.io/v1alpha1\nkind: RoutingConfiguration\n"
    assert refusal("port: 0\nrules: [{name: a, schedulerName: b}]", head) == (
        "[port: Invalid value: 0: not in valid range [1, 65535], certFile: Required value, keyFile: Required value]"
    )


def test_a_misspelt_field_is_refused() -> None:
    assert refusal("rules: [{nam: a}]").endswith('unknown field "rules[0].nam"')
