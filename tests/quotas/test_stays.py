"""A pod that took the place of one that was moved stays longer than that one had to."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from kscheduler.quotas.stays import FORGET_S, MOST_STAY_S, STAY_S, Stays

NOW = 1e9


def test_a_pod_that_took_nobodys_place_stays_for_five_minutes() -> None:
    stays = Stays()
    assert stays.stay_s("rs", NOW) == STAY_S
    stays.moved("rs", NOW, NOW + 1000)
    assert stays.stay_s("rs", NOW + 500) == STAY_S, "it was there before"
    assert stays.stay_s("other", NOW + 2000) == STAY_S


def test_the_stay_doubles_with_each_move_up_to_an_hour() -> None:
    stays, created, found = Stays(), NOW, []
    for _ in range(6):
        found.append(stays.stay_s("rs", created))
        now = created + found[-1]
        stays.moved("rs", created, now)
        created = now + 5.0
    assert found == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0]


def test_pods_of_one_controller_that_are_moved_in_turn_each_stay_longer() -> None:
    stays = Stays()
    stays.moved("rs", NOW, NOW + 300)
    stays.moved("rs", NOW, NOW + 400)
    stays.moved("rs", NOW + 305, NOW + 905)
    assert stays.stay_s("rs", NOW + 405) == 2 * STAY_S
    assert stays.stay_s("rs", NOW + 910) == 4 * STAY_S


def test_a_pod_that_was_created_in_the_second_of_the_move_took_the_place() -> None:
    stays = Stays()
    stays.moved("rs", NOW, NOW + 300.9)
    assert stays.stay_s("rs", NOW + 300) == 2 * STAY_S


def test_what_was_moved_a_day_ago_makes_no_difference() -> None:
    stays = Stays()
    stays.moved("rs", NOW, NOW + 300)
    stays.moved("rs", NOW + 305, NOW + 305 + FORGET_S)
    stays.moved("rs", NOW + 310 + FORGET_S, NOW + 2 * FORGET_S)
    assert stays.stay_s("rs", NOW + 305) == STAY_S


def test_a_clock_that_was_set_back_leaves_no_longer_stay() -> None:
    stays = Stays()
    stays.moved("rs", NOW, NOW + 1e6)
    stays.moved("rs", NOW, NOW + 300)
    assert stays.stay_s("rs", NOW + 305) == 2 * STAY_S


@given(st.lists(st.floats(0.0, 4000.0), max_size=40))
def test_no_pod_of_a_controller_with_one_is_moved_more_often_than_each_hour_for_long(waits: list[float]) -> None:
    stays, created, moved = Stays(), NOW, []
    for waited in waits:
        now = created + max(waited, stays.stay_s("rs", created))
        stays.moved("rs", created, now)
        moved.append(now)
        created = now + 1.0
    assert all(later - earlier >= MOST_STAY_S for earlier, later in pairwise(moved[4:]))
