"""Namespaces: which of them a selector matches, and when that has to be evaluated again."""

from __future__ import annotations

from kscheduler.api.labels import CompiledLabelSelector, compile_label_selector
from kscheduler.api.objects import LabelSelector
from kscheduler.snapshot.namespaces import MAX_KEPT, Namespaces

TEAM_A = compile_label_selector(LabelSelector(match_labels={"team": "a"}), "selector")


def test_a_selector_finds_the_namespaces_with_its_labels() -> None:
    namespaces = Namespaces({"one": {"team": "a"}, "two": {"team": "b"}, "three": {}})
    assert namespaces.selected_by(TEAM_A) == {"one"}
    assert namespaces.selected_by(CompiledLabelSelector(())) == {"one", "two", "three"}
    assert namespaces.selected_by(CompiledLabelSelector(None)) == frozenset()


def test_a_change_is_seen_and_counted_and_a_repetition_is_not() -> None:
    namespaces = Namespaces()
    assert namespaces.get("one") is None
    assert namespaces.set("one", {"team": "a"})
    assert namespaces.selected_by(TEAM_A) == {"one"}
    before = namespaces.generation
    assert not namespaces.set("one", {"team": "a"})
    assert namespaces.generation == before
    assert namespaces.set("one", {"team": "b"})
    assert namespaces.selected_by(TEAM_A) == frozenset()
    assert namespaces.remove("one")
    assert not namespaces.remove("one")
    assert namespaces.generation == before + 2
    assert len(namespaces) == 0


def test_answers_are_kept_only_up_to_a_bound() -> None:
    namespaces = Namespaces({"n1": {"n": "1"}})
    for number in range(MAX_KEPT + 1):
        selector = compile_label_selector(LabelSelector(match_labels={"n": str(number)}), "selector")
        assert namespaces.selected_by(selector) == ({"n1"} if number == 1 else frozenset())
