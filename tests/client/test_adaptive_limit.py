from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.adaptive_limit import MINIMUM, START, AdaptiveLimit


def play(limit: AdaptiveLimit, latency_s: float, rounds: int, *, is_full: bool = True) -> None:
    for _ in range(rounds):
        for _ in range(limit.value):
            limit.note_latency(latency_s, is_full=is_full)


def test_it_grows_to_the_ceiling_while_answers_come_as_fast_as_ever() -> None:
    limit = AdaptiveLimit(100)
    assert limit.value == START
    play(limit, 0.005, 20)
    assert limit.value == 100


def test_it_doubles_until_answers_get_slower() -> None:
    limit = AdaptiveLimit(1000)
    play(limit, 0.015, 3)
    assert limit.value == 8 * START
    play(limit, 0.06, 1)
    assert limit.value == 8 * START
    play(limit, 0.015, 1)
    assert limit.value == 8 * START + 8


def test_it_does_not_grow_when_less_is_asked_for() -> None:
    limit = AdaptiveLimit(100)
    play(limit, 0.005, 20, is_full=False)
    assert limit.value == START


def test_it_shrinks_while_answers_are_clearly_slower_than_they_can_be() -> None:
    limit = AdaptiveLimit(100)
    play(limit, 0.005, 20)
    play(limit, 0.5, 3)
    assert limit.value == 51  # a fifth less, three times
    play(limit, 0.5, 50)
    assert MINIMUM <= limit.value < 10


def test_a_little_slower_changes_nothing() -> None:
    limit = AdaptiveLimit(100)
    play(limit, 0.03, 1)
    before = limit.value
    play(limit, 0.09, 10)
    assert limit.value == before


def test_a_cluster_that_is_slower_for_good_is_got_used_to() -> None:
    limit = AdaptiveLimit(100)
    play(limit, 0.03, 20)
    play(limit, 0.3, 500)
    assert limit.value > MINIMUM


def test_a_push_back_halves_it_once_a_round() -> None:
    limit = AdaptiveLimit(100)
    play(limit, 0.005, 20)
    for _ in range(100):  # all that were under way are refused
        limit.pushed_back()
    assert limit.value == 50
    limit.pushed_back()
    limit.pushed_back()
    assert limit.value == 25


def test_it_recovers_from_push_backs() -> None:
    limit = AdaptiveLimit(100)
    for _ in range(500):
        limit.pushed_back()
    assert limit.value == MINIMUM
    play(limit, 0.005, 40)
    assert limit.value == 100


@pytest.mark.parametrize("ceiling", [1, 2, 10])
def test_a_small_ceiling_is_kept(ceiling: int) -> None:
    limit = AdaptiveLimit(ceiling)
    play(limit, 0.001, 10)
    assert limit.value == ceiling
    for _ in range(50):
        limit.pushed_back()
    assert 1 <= limit.value <= ceiling


def test_another_ceiling_takes_effect_at_once() -> None:
    limit = AdaptiveLimit(100)
    limit.bound(8)
    assert limit.value == 8
    limit.bound(200)
    play(limit, 0.001, 60)
    assert limit.value == 200


@given(st.integers(1, 200), st.lists(st.none() | st.tuples(st.floats(0, 100), st.booleans()), max_size=400))
def test_it_stays_within_its_bounds_whatever_comes(ceiling: int, answers: list[tuple[float, bool] | None]) -> None:
    limit = AdaptiveLimit(ceiling)
    for answer in answers:
        if answer is None:
            limit.pushed_back()
        else:
            limit.note_latency(answer[0], is_full=answer[1])
        assert min(MINIMUM, ceiling) <= limit.value <= ceiling
