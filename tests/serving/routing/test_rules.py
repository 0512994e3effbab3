"""Which scheduler a new pod is given."""

from __future__ import annotations

from kscheduler.serving.routing.rules import IsPlanB, NewPod, Route, Router
from tests.support.routing import HEAD, PROFILES, parse_routing

NAMESPACES = {"shop": {"team": "a", "kubernetes.io/metadata.name": "shop"}, "ops": {}}


def router(rules: str, is_plan_b: IsPlanB = lambda scheduler_name, pod: False) -> Router:
    return Router(parse_routing(f"{HEAD}rules: {rules}", PROFILES).rules, NAMESPACES.get, is_plan_b)


def pod(namespace: str = "shop", scheduler: str = "default-scheduler", *, node: bool = False, **labels: str) -> NewPod:
    return NewPod(namespace, labels, {}, scheduler, node)


def test_a_rule_without_conditions_takes_every_pod_of_the_default_scheduler() -> None:
    every = router("[{name: all, schedulerName: fast}]")
    assert every.route(pod()) == Route("all", "fast")
    assert every.route(pod(scheduler="another")) is None


def test_other_schedulers_are_replaced_where_the_rule_says_so() -> None:
    some = router("[{name: all, schedulerName: fast, replaces: [old, older]}]")
    assert some.route(pod(scheduler="older")) == Route("all", "fast")
    assert some.route(pod()) is None


def test_a_pod_that_has_a_node_already_is_left_alone() -> None:
    assert router("[{name: all, schedulerName: fast}]").route(pod(node=True)) is None


def test_namespaces_are_chosen_by_name_or_label() -> None:
    by_name = router("[{name: a, schedulerName: fast, namespaces: [shop, x]}]")
    assert by_name.route(pod("shop"))
    assert not by_name.route(pod("ops"))
    by_label = router("[{name: a, schedulerName: fast, namespaceSelector: {matchLabels: {team: a}}}]")
    assert by_label.route(pod("shop"))
    assert not by_label.route(pod("ops"))


def test_a_namespace_that_is_not_known_yet_has_its_name() -> None:
    named = "{matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [new]}]}"
    assert router(f"[{{name: a, schedulerName: fast, namespaceSelector: {named}}}]").route(pod("new"))


def test_pods_are_chosen_by_label() -> None:
    batch = router(
        "[{name: a, schedulerName: fast, podSelector: {matchExpressions: [{key: batch, operator: Exists}]}}]"
    )
    assert batch.route(pod(batch="x"))
    assert not batch.route(pod())


def test_the_first_rule_that_matches_decides_even_if_it_changes_nothing() -> None:
    rules = router(
        "[{name: keep, schedulerName: default-scheduler, namespaces: [ops]}, {name: rest, schedulerName: fast}]"
    )
    assert rules.route(pod("ops")) is None
    assert rules.route(pod("shop")) == Route("rest", "fast")


def test_under_plan_b_the_other_scheduler_is_taken() -> None:
    asked: list[str] = []

    def is_plan_b(scheduler_name: str, pod: NewPod) -> bool:
        asked.append(scheduler_name)
        return "slow" in pod.labels

    rules = router("[{name: a, schedulerName: default-scheduler, replaces: [x], planB: other}]", is_plan_b)
    assert rules.route(pod(scheduler="x", slow="")) == Route("a", "other")
    assert rules.route(pod(scheduler="x")) == Route("a", "default-scheduler")
    assert asked == ["default-scheduler"] * 2
