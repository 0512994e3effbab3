"""Node node classes and the answers plugins keep for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import Node
from kscheduler.snapshot import node_classes as module
from kscheduler.snapshot.node_classes import NodeClass, NodeClasses
from kscheduler.testing import make_node


def in_zone(zone: str, name: str = "n") -> Node:
    return make_node(name).label(zone=zone).obj()


def ask_zone(node_class: NodeClass) -> int:
    return int(node_class.labels["zone"])


def test_nodes_that_differ_only_in_their_hostname_share_a_node_class() -> None:
    node_classes = NodeClasses()
    assert node_classes.acquire(in_zone("1", "a")) is node_classes.acquire(in_zone("1", "b"))
    assert "kubernetes.io/hostname" not in node_classes.acquire(in_zone("1")).labels


@pytest.mark.parametrize(
    "other",
    [make_node("n").label(zone="2"), make_node("n").label(zone="1").taint("key"),
     make_node("n").label(zone="1").unschedulable()],
)  # fmt: skip
def test_labels_taints_and_cordons_make_another_node_class(other: Any) -> None:
    node_classes = NodeClasses()
    assert node_classes.acquire(in_zone("1")) is not node_classes.acquire(other.obj())


def test_the_id_of_a_node_class_nobody_uses_is_given_to_the_next() -> None:
    node_classes = NodeClasses()
    first = node_classes.acquire(in_zone("1"))
    node_classes.acquire(in_zone("1"))
    node_classes.release(first)
    assert node_classes.acquire(in_zone("2")).id == 1
    node_classes.release(first)
    before = node_classes.epoch
    assert node_classes.acquire(in_zone("3")).id == 0
    assert node_classes.epoch > before
    assert len(node_classes) == 2


def test_a_node_class_that_comes_back_after_nobody_used_it_is_a_new_one() -> None:
    node_classes = NodeClasses()
    node_classes.release(node_classes.acquire(in_zone("1")))
    again = node_classes.acquire(in_zone("1"))
    assert (again.id, dict(again.labels)) == (0, {"zone": "1"})


# --- answers ------------------------------------------------------------------------------------------------------


def test_a_plugin_is_asked_once_for_each_node_class() -> None:
    node_classes = NodeClasses()
    memo = node_classes.value_memo()
    asked: list[int] = []

    def ask(node_class: NodeClass) -> int:
        asked.append(node_class.id)
        return ask_zone(node_class)

    node_classes.acquire(in_zone("7"))
    assert list(memo.answers("question", ask)) == [7]
    node_classes.acquire(in_zone("9"))
    assert list(memo.answers("question", ask)) == [7, 9]
    assert asked == [0, 1]


def test_questions_do_not_share_answers() -> None:
    node_classes = NodeClasses()
    memo = node_classes.verdict_memo()
    node_classes.acquire(in_zone("1"))
    assert list(memo.answers("one", lambda node_class: 1)) == [1]
    assert list(memo.answers("two", lambda node_class: 2)) == [2]


def test_answers_about_a_node_class_whose_id_was_given_away_are_void() -> None:
    node_classes = NodeClasses()
    memo = node_classes.value_memo()
    node_classes.release(node_classes.acquire(in_zone("1")))
    assert list(memo.answers("question", ask_zone)) == [1]
    node_classes.acquire(in_zone("2"))
    assert list(memo.answers("question", ask_zone)) == [2]


def test_the_answers_not_asked_for_longest_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    node_classes = NodeClasses()
    node_classes.acquire(in_zone("1"))
    memo = node_classes.verdict_memo()
    asked: list[str] = []

    def asking(key: str) -> None:
        memo.answers(key, lambda node_class: asked.append(key) or 0)  # type: ignore[func-returns-value]

    for key in ("a", "b", "a", "c", "a", "b"):
        asking(key)
    assert asked == ["a", "b", "c", "b"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
def test_answers_are_right_whatever_comes_and_goes(steps: list[tuple[bool, int]]) -> None:
    node_classes = NodeClasses()
    memo = node_classes.value_memo()
    used: list[NodeClass] = []
    for comes, zone in steps:
        if comes or not used:
            used.append(node_classes.acquire(in_zone(str(zone))))
        else:
            node_classes.release(used.pop(zone % len(used)))
        answers = memo.answers("question", ask_zone)
        assert len(answers) == len(node_classes)
        assert all(answers[node_class.id] == ask_zone(node_class) for node_class in used)
