"""Searches in vain leave time for others, and every gang gets its turn."""

from __future__ import annotations

from kscheduler.framework.preemption.pace import LEAST_S, MOST_S, PAUSE, Pace
from kscheduler.gangs.preemption.whole import Answer
from kscheduler.gangs.texts import IN_VAIN, NOT_YET
from tests.gangs.preemption.bench import HIGH, Cluster, low

NOW = 1e9


def test_after_a_search_in_vain_none_begins_for_a_multiple_of_its_cost() -> None:
    pace = Pace()
    assert pace.wait_s(NOW) == 0
    pace.was_in_vain(NOW, 0.5)
    assert pace.wait_s(NOW) == 0.5 * PAUSE
    assert pace.wait_s(NOW + 0.5 * PAUSE) == 0


def test_gangs_that_have_to_wait_get_turns_one_after_the_other() -> None:
    pace = Pace()
    pace.was_in_vain(NOW, 0.5)
    turns = [pace.next_turn_s(name, NOW) for name in ("a", "b", "c")]
    assert turns == [4.0, 6.0, 8.0]
    assert pace.next_turn_s("b", NOW + 1) == 5.0, "the one that it has"
    assert pace.next_turn_s("a", NOW + 4) == 6.0


def test_a_clock_that_is_set_back_stops_no_search() -> None:
    pace = Pace()
    pace.was_in_vain(NOW, 0.0)
    assert 0 < pace.wait_s(NOW) <= LEAST_S
    assert pace.wait_s(NOW - 2 * MOST_S) == 0


def test_a_gang_whose_search_has_to_wait_is_tried_again_and_says_so() -> None:
    cluster = Cluster(1)
    cluster.place(low("low"), "n0")
    cluster.place(low("high", priority=HIGH), "n0")
    for name in ("train", "serve"):
        cluster.set_gang(name, 2)
    train, serve = cluster.members(2), cluster.members(2, of="serve")
    assert cluster.preempt(train, 2) == Answer(IN_VAIN)
    assert cluster.preempt(train, 2) == Answer(IN_VAIN), "as before"
    assert cluster.preempt(serve, 2, "serve") == Answer(NOT_YET)
    assert [pod for pod, _ in cluster.retried] == ["default/train", "default/serve"]
    cluster.evictions.now += 1
    assert cluster.preempt(serve, 2, "serve") == Answer(IN_VAIN)
