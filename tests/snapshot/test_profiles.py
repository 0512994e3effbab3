"""Node profiles and the answers plugins keep for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.objects import Node
from kscheduler.snapshot import profiles as module
from kscheduler.snapshot.profiles import NodeProfile, Profiles
from kscheduler.testing import make_node


def in_zone(zone: str, name: str = "n") -> Node:
    return make_node(name).label(zone=zone).obj()


def ask_zone(profile: NodeProfile) -> int:
    return int(profile.labels["zone"])


def test_nodes_alike_but_for_their_hostname_share_a_profile() -> None:
    profiles = Profiles()
    assert profiles.acquire(in_zone("1", "a")) is profiles.acquire(in_zone("1", "b"))
    assert "kubernetes.io/hostname" not in profiles.acquire(in_zone("1")).labels


@pytest.mark.parametrize(
    "other",
    [make_node("n").label(zone="2"), make_node("n").label(zone="1").taint("key"),
     make_node("n").label(zone="1").unschedulable()],
)  # fmt: skip
def test_labels_taints_and_cordons_make_another_profile(other: Any) -> None:
    profiles = Profiles()
    assert profiles.acquire(in_zone("1")) is not profiles.acquire(other.obj())


def test_the_id_of_a_profile_nobody_uses_is_given_to_the_next() -> None:
    profiles = Profiles()
    first = profiles.acquire(in_zone("1"))
    profiles.acquire(in_zone("1"))
    profiles.release(first)
    assert profiles.acquire(in_zone("2")).id == 1
    profiles.release(first)
    before = profiles.epoch
    assert profiles.acquire(in_zone("3")).id == 0
    assert profiles.epoch > before
    assert len(profiles) == 2


def test_a_profile_that_comes_back_after_nobody_used_it_is_a_new_one() -> None:
    profiles = Profiles()
    profiles.release(profiles.acquire(in_zone("1")))
    again = profiles.acquire(in_zone("1"))
    assert (again.id, dict(again.labels)) == (0, {"zone": "1"})


# --- answers ------------------------------------------------------------------------------------------------------


def test_a_plugin_is_asked_once_for_each_profile() -> None:
    profiles = Profiles()
    memo = profiles.value_memo()
    asked: list[int] = []

    def ask(profile: NodeProfile) -> int:
        asked.append(profile.id)
        return ask_zone(profile)

    profiles.acquire(in_zone("7"))
    assert list(memo.answers("question", ask)) == [7]
    profiles.acquire(in_zone("9"))
    assert list(memo.answers("question", ask)) == [7, 9]
    assert asked == [0, 1]


def test_questions_do_not_share_answers() -> None:
    profiles = Profiles()
    memo = profiles.verdict_memo()
    profiles.acquire(in_zone("1"))
    assert list(memo.answers("one", lambda profile: 1)) == [1]
    assert list(memo.answers("two", lambda profile: 2)) == [2]


def test_answers_about_a_profile_whose_id_was_given_away_are_void() -> None:
    profiles = Profiles()
    memo = profiles.value_memo()
    profiles.release(profiles.acquire(in_zone("1")))
    assert list(memo.answers("question", ask_zone)) == [1]
    profiles.acquire(in_zone("2"))
    assert list(memo.answers("question", ask_zone)) == [2]


def test_the_answers_not_asked_for_longest_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    profiles = Profiles()
    profiles.acquire(in_zone("1"))
    memo = profiles.verdict_memo()
    asked: list[str] = []

    def asking(key: str) -> None:
        memo.answers(key, lambda profile: asked.append(key) or 0)  # type: ignore[func-returns-value]

    for key in ("a", "b", "a", "c", "a", "b"):
        asking(key)
    assert asked == ["a", "b", "c", "b"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
def test_answers_are_right_whatever_comes_and_goes(steps: list[tuple[bool, int]]) -> None:
    profiles = Profiles()
    memo = profiles.value_memo()
    used: list[NodeProfile] = []
    for comes, zone in steps:
        if comes or not used:
            used.append(profiles.acquire(in_zone(str(zone))))
        else:
            profiles.release(used.pop(zone % len(used)))
        answers = memo.answers("question", ask_zone)
        assert len(answers) == len(profiles)
        assert all(answers[profile.id] == ask_zone(profile) for profile in used)
