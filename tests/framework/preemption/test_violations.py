from __future__ import annotations

import pytest

from kscheduler.api.objects import PodDisruptionBudget
from kscheduler.framework.preemption.violations import split
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import PodBuilder, make_pod
from tests.framework.plugins.defaultpreemption.fakes import budget

FOO = {"app": "foo"}


def violating(pods: list[PodBuilder], *budgets: PodDisruptionBudget, stops: bool = False) -> list[str]:
    known = DisruptionBudgets()
    for each in budgets:
        known.set(each)
    victims = [PodInfo(pod.obj()) for pod in pods]
    hit, others = split(victims, known, stops_at_overdrawn=stops)
    order = [victim.key for victim in victims]
    assert sorted([*hit, *others], key=lambda victim: order.index(victim.key)) == victims
    for group in (hit, others):
        assert [order.index(victim.key) for victim in group] == sorted(order.index(victim.key) for victim in group)
    return [victim.pod.metadata.name for victim in hit]


def foo(name: str) -> PodBuilder:
    return make_pod(name).label(app="foo")


def test_without_budgets_nobody_is_protected() -> None:
    assert violating([foo("a"), foo("b")]) == []


def test_a_budget_is_used_up_by_the_first() -> None:
    assert violating([foo("a"), foo("b"), foo("c")], budget("one", 1, FOO)) == ["b", "c"]


def test_a_pod_whose_eviction_is_counted_already_uses_nothing_up() -> None:
    assert violating([foo("a"), foo("b"), foo("c")], budget("one", 1, FOO, disrupted=("a",))) == ["c"]
    assert violating([foo("a"), foo("b")], budget("one", 1, FOO, disrupted=("other",))) == ["b"]


@pytest.mark.parametrize("stops", [False, True])
def test_budgets_behind_one_that_refuses_are_charged_unless_it_stops_there(stops: bool) -> None:
    both = make_pod("both").label(app="foo", tier="web")
    web = make_pod("web").label(tier="web")
    refuses, allows = budget("foo", 0, FOO), budget("web", 1, {"tier": "web"})
    assert violating([both, web], refuses, allows, stops=stops) == (["both"] if stops else ["both", "web"])
    assert violating([both, web], allows, refuses, stops=stops) == ["both", "web"]


@pytest.mark.parametrize(
    "pod",
    [make_pod("other").label(app="bar"), make_pod("bare"), make_pod("away", namespace="elsewhere").label(app="foo")],
    ids=["other labels", "no labels", "another namespace"],
)
def test_a_budget_covers_only_its_pods(pod: PodBuilder) -> None:
    assert violating([pod], budget("zero", 0, FOO)) == []


@pytest.mark.parametrize("labels", [None, {}, {"not a key": "x"}], ids=["absent", "empty", "malformed"])
def test_a_selector_that_says_nothing_covers_nothing(labels: dict[str, str] | None) -> None:
    assert violating([foo("a")], budget("zero", 0, labels)) == []


def test_a_budget_already_overdrawn_refuses() -> None:
    assert violating([foo("a")], budget("negative", -1, FOO)) == ["a"]
