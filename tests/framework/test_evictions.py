"""What preemptors know of evictions that others have begun."""

from __future__ import annotations

from kscheduler.framework.evictions import Endings


def test_an_eviction_under_way_is_not_forgotten_when_another_preemptor_is_done() -> None:
    endings = Endings()
    endings.choose("first", ["a"])
    ending = endings.begin("a")
    endings.choose("second", ["a", "b"])
    endings.release("second")
    assert endings.is_under_way("a")
    endings.finish(ending, "accepted")
    assert not endings.is_under_way("a")
    assert endings.since_chosen("a", "first") == "accepted"


def test_an_eviction_that_ended_before_a_preemptor_chose_does_not_count_for_it() -> None:
    endings = Endings()
    endings.choose("first", ["a"])
    endings.finish(endings.begin("a"), "accepted")
    endings.choose("second", ["b"])
    assert endings.since_chosen("a", "second") is None
    endings.release("first")
    endings.choose("third", ["a"])
    assert endings.since_chosen("a", "third") is None


def test_a_pod_is_chosen_while_the_evictions_of_a_preemptor_are_under_way() -> None:
    endings = Endings()
    endings.choose("first", ["a"])
    endings.choose("second", ["a", "b"])
    assert endings.chosen() == {"a", "b"}
    endings.release("second")
    assert endings.is_chosen("a")
    assert not endings.is_chosen("b")
