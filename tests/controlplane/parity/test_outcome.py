"""Outcomes: what of a placement counts, and that every difference is reported."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from kscheduler.testing.controlplane import workload
from tests.controlplane.parity.manifests import ZONE
from tests.controlplane.parity.outcome import Outcome, differences, exact, in_each, label_of_each, of_each_name, shape

NODES = {
    "a1": workload.node("a1", labels={ZONE: "a"}),
    "a2": workload.node("a2", labels={ZONE: "a"}),
    "b1": workload.node("b1", labels={ZONE: "b"}),
}
BINDINGS = {"main/one": "a1", "main/two": "a2", "main/three": "b1"}

FIELDS = [field.name for field in dataclasses.fields(Outcome)]


def outcome(**fields: dict[str, Any]) -> Outcome:
    return Outcome(**{name: fields.get(name, {"main/p": "so"}) for name in FIELDS})


def test_placements_are_compared_in_the_way_a_scenario_chooses() -> None:
    assert exact(BINDINGS, NODES) == BINDINGS
    assert in_each(ZONE)(BINDINGS, NODES) == {"a": 2, "b": 1}
    assert shape(ZONE)(BINDINGS, NODES) == {f"pods in each {ZONE}": "2 1"}
    assert label_of_each(ZONE)(BINDINGS, NODES) == {"main/one": "a", "main/two": "a", "main/three": "b"}


def test_what_is_found_of_replicas_is_together_under_one_name_and_in_no_order() -> None:
    found = {"main/web-bcd24": "a", "main/greater": "b", "main/web-fgh57": ""}
    same = {"main/web-zzzzz": "", "main/web-xxxxx": "a", "main/greater": "b"}
    together = {"main/web-*": ["", "a"], "main/greater": "b"}

    def mask(text: str) -> str:
        return re.sub("web-.*", "web-*", text)

    assert of_each_name(found, mask) == of_each_name(same, mask) == together
    assert of_each_name({**found, "main/web-fgh57": "c"}, mask) != together


def test_equal_outcomes_differ_in_nothing() -> None:
    assert differences(outcome(), outcome()) == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_difference_in_any_field_is_reported_with_both_sides(field: str) -> None:
    assert differences(outcome(), outcome(**{field: {"main/p": "otherwise"}})) == [
        f"{field} of main/p:\n  kube-scheduler: so\n  kscheduler:     otherwise"
    ]


@pytest.mark.parametrize("field", FIELDS)
def test_what_only_one_side_has_is_reported(field: str) -> None:
    (found,) = differences(outcome(**{field: {}}), outcome())
    assert "kube-scheduler: absent" in found
    (found,) = differences(outcome(), outcome(**{field: {}}))
    assert "kscheduler:     absent" in found
