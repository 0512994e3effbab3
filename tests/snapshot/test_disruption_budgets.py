from __future__ import annotations

import pytest

from kscheduler.api.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    SelectorRequirement,
)
from kscheduler.snapshot.disruption_budgets import DisruptionBudgets
from kscheduler.testing import make_pod

FOO = LabelSelector(match_labels={"app": "foo"})


def budget(name: str, selector: LabelSelector | None = FOO, allowed: int = 0, *disrupted: str) -> PodDisruptionBudget:
    status = PodDisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2024-01-01T00:00:00Z") or None)
    return PodDisruptionBudget(ObjectMeta(name=name, namespace="ns"), PodDisruptionBudgetSpec(selector), status)


def test_budgets_are_found_by_namespace_until_they_are_removed() -> None:
    budgets = DisruptionBudgets()
    budgets.set(budget("a"))
    budgets.set(budget("b"))
    assert len(budgets) == 2
    assert len(budgets.within("ns")) == 2
    assert not budgets.within("other")
    for name in ("a", "b", "b", "never"):
        budgets.remove("ns", name)
    assert len(budgets) == 0
    assert not budgets.within("ns")


def test_the_newest_version_counts() -> None:
    budgets = DisruptionBudgets()
    budgets.set(budget("a", FOO, 1))
    budgets.set(budget("a", FOO, 2, "gone"))
    (known,) = budgets.within("ns")
    assert (known.allowed, known.disrupted) == (2, frozenset({"gone"}))
    budgets.set(budget("a", None))
    assert not budgets.within("ns")


@pytest.mark.parametrize(
    "selector",
    [None, LabelSelector(), LabelSelector(match_expressions=[SelectorRequirement("app", "Like", ["foo"])])],
    ids=["absent", "empty", "malformed"],
)
def test_a_selector_that_covers_nothing_is_not_kept(selector: LabelSelector | None) -> None:
    budgets = DisruptionBudgets()
    budgets.set(budget("a", selector))
    assert len(budgets) == 0


def test_a_pod_is_covered_by_its_labels_unless_it_was_counted_already() -> None:
    budgets = DisruptionBudgets()
    not_foo = LabelSelector(match_expressions=[SelectorRequirement("app", "NotIn", ["bar"])])
    budgets.set(budget("a", not_foo, 0, "counted"))
    (known,) = budgets.within("ns")
    assert known.covers(make_pod("p", namespace="ns").label(app="foo").obj())
    assert known.covers(make_pod("p", namespace="ns").label(tier="web").obj())
    assert not known.covers(make_pod("p", namespace="ns").label(app="bar").obj())
    assert not known.covers(make_pod("p", namespace="ns").obj())  # no labels: covered by nothing
    assert not known.covers(make_pod("counted", namespace="ns").label(app="foo").obj())
