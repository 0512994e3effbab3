from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.metric_policy import Clamp, Freshness, Metric
from kscheduler.framework.telemetry import SampleSteps
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.telemetry.node_rows import NodeRows
from kscheduler.telemetry.sample_book import SampleBook
from kscheduler.telemetry.source import NOT_A_NUMBER, OLDER, UNKNOWN_NODE, Reading, Sample
from kscheduler.testing.wrappers import make_node

WALL = 1_700_000_000.0  # Unix seconds at second 0 of our clock


class Desk:
    """A sample book over nodes a and b; each reading is added with its time."""

    def __init__(self, **fields: Any) -> None:
        self.table = NodeTable()
        for name in ("a", "b"):
            self.table.set_node(make_node(name).obj())
        self.rows = NodeRows(self.table, lambda changed: self.book.clear(changed))
        self.book = SampleBook(Metric(name="load", source="s", **fields), self.rows, 15.0)
        self.refused: Counter[str] = Counter()

    def read(self, now: float, **samples: float | tuple[float, float]) -> list[float | None]:
        """node=value, or node=(value, stamp in seconds of our clock); returns what the book holds then."""
        given = {
            node: Sample(recorded[0], WALL + recorded[1]) if isinstance(recorded, tuple) else Sample(recorded)
            for node, recorded in samples.items()
        }
        reading = Reading(given)
        bounds = self.book.bounds(reading)
        self.book.take(given.items(), bounds, now, WALL + now, self.refused)
        self.book.complete(now)
        return self.values

    @property
    def values(self) -> list[float | None]:
        self.rows.follow()
        return [None if math.isnan(value) else value for value in self.book.values]


def test_a_sample_without_a_time_is_taken_when_it_arrives() -> None:
    desk = Desk()
    assert desk.read(10.0, a=1.0) == [1.0, None]
    assert list(desk.book.sampled_at) == [10.0, math.inf]
    assert desk.book.newest_at == 10.0


def test_a_sample_is_as_old_as_the_source_says() -> None:
    desk = Desk()
    desk.read(100.0, a=(1.0, 40.0), b=(2.0, 90.0))
    assert list(desk.book.sampled_at) == [40.0, 90.0]
    assert desk.book.newest_at == 90.0


def test_an_older_sample_never_replaces_a_newer_one() -> None:
    desk = Desk()
    desk.read(100.0, a=(1.0, 90.0))
    assert desk.read(110.0, a=(2.0, 80.0)) == [1.0, None]
    assert desk.refused == {OLDER: 1}


def test_the_same_sample_once_more_grows_old() -> None:
    desk = Desk()
    desk.read(100.0, a=(1.0, 90.0))
    desk.read(200.0, a=(5.0, 90.0))
    assert desk.values == [1.0, None]
    assert list(desk.book.sampled_at) == [90.0, math.inf]
    assert desk.refused == {OLDER: 1}


def test_a_sample_from_the_future_counts_as_taken_now() -> None:
    desk = Desk()
    desk.read(100.0, a=(1.0, 130.0))
    assert list(desk.book.sampled_at) == [100.0, math.inf]


def test_a_time_that_is_not_credible_does_not_keep_later_samples_out() -> None:
    desk = Desk()
    desk.read(100.0, a=(1.0, 1e9))
    assert desk.read(115.0, a=(2.0, 115.0)) == [2.0, None]
    desk.read(120.0, a=(3.0, 1e9))
    assert desk.read(130.0, a=(4.0, 1e9)) == [3.0, None]  # the same time again is no new sample


def test_what_is_no_number_is_refused_and_what_was_known_stays() -> None:
    desk = Desk()
    desk.read(0.0, a=1.0)
    assert desk.read(15.0, a=math.nan, b=math.inf) == [1.0, None]
    assert desk.read(30.0, a=(2.0, math.nan)) == [1.0, None]
    assert desk.refused == {NOT_A_NUMBER: 3}


def test_a_node_nobody_knows_is_refused() -> None:
    desk = Desk()
    desk.read(0.0, a=1.0, elsewhere=2.0)
    assert desk.refused == {UNKNOWN_NODE: 1}


def test_values_are_clamped_and_then_smoothed() -> None:
    desk = Desk(clamp=Clamp(max=10), smoothing=0.75)
    assert desk.read(0.0, a=100.0) == [10.0, None]
    assert desk.read(15.0, a=2.0) == [0.75 * 10.0 + 0.25 * 2.0, None]


def test_how_a_value_came_about_is_returned_step_by_step() -> None:
    desk = Desk(clamp=Clamp(max=10), smoothing=0.75)
    assert desk.book.steps(0, 0.0) is None
    desk.read(0.0, a=6.0)
    desk.read(15.0, a=(100.0, 13.0))
    assert desk.book.steps(0, 20.0) == SampleSteps(100.0, 10.0, 0.75 * 6.0 + 0.25 * 10.0, 7.0)
    assert desk.book.steps(1, 20.0) is None
    assert desk.book.steps(99, 20.0) is None


def test_a_node_that_returns_under_its_name_begins_again() -> None:
    desk = Desk(smoothing=0.5)
    desk.read(0.0, a=(1.0, 0.0), b=2.0)
    desk.table.remove_node("a")
    assert desk.values == [None, 2.0]
    desk.table.set_node(make_node("a").uid("another").obj())
    assert desk.read(15.0, a=(7.0, -5.0)) == [7.0, 2.0]


def test_the_window_is_the_users_and_else_the_sources() -> None:
    desk = Desk()
    desk.book.bounds(Reading(window_s=30.0))
    assert desk.book.window_s == 30.0


# --- how long values are fresh: 3 times the pace that was seen, at least 3 times 15 s ---


def fresh_for(desk: Desk) -> float:
    return desk.book.cadence.max_age_s(Freshness())


def test_a_source_that_gives_each_answer_a_new_time_is_judged_by_its_values() -> None:
    """As Prometheus does it: asked each 15 s, it scrapes each minute."""
    desk = Desk()
    for number in range(20):
        desk.read(15.0 * number, a=(0.1 * (number // 4), 15.0 * number), b=(0.2 * (number // 4), 15.0 * number))
    assert fresh_for(desk) == 180.0


def test_nodes_that_are_measured_at_different_moments_do_not_make_a_metric_look_faster() -> None:
    desk = Desk()
    for number in range(20):
        desk.read(15.0 * number, a=float(number // 4), b=float((number + 2) // 4))
    assert fresh_for(desk) == 180.0


def test_a_metric_that_never_changed_is_not_taken_for_a_slow_one() -> None:
    desk = Desk()
    for number in range(100):
        desk.read(15.0 * number, a=1.0, b=2.0)
    assert fresh_for(desk) == 45.0


def test_a_node_that_always_says_the_same_makes_no_metric_slow() -> None:
    desk = Desk()
    for number in range(20):
        desk.read(15.0 * number, a=float(number), b=(1.0, 0.0))
    assert fresh_for(desk) == 45.0


def test_a_change_of_what_is_clamped_is_a_change() -> None:
    desk = Desk(clamp=Clamp(max=1))
    for number in range(20):
        desk.read(15.0 * number, a=2.0 + number // 2)
    assert fresh_for(desk) == 90.0


def test_a_source_with_times_of_its_own_is_judged_by_those_too() -> None:
    desk = Desk()
    for number in range(40):
        desk.read(15.0 * number, a=(1.0, 120.0 * (15 * number // 120)))
    assert fresh_for(desk) == 360.0


def test_an_outage_makes_no_metric_slow() -> None:
    desk = Desk()
    for number in (0, 1, 2, 50, 51):
        desk.read(15.0 * number, a=float(number), b=float(number % 2))
    assert fresh_for(desk) == 45.0


@given(st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), max_size=20))
def test_whatever_comes_the_book_holds_finite_values_that_are_not_from_the_future(
    samples: list[tuple[float, float]],
) -> None:
    desk = Desk()
    for index, sample in enumerate(samples):
        now = 15.0 * index
        desk.read(now, a=sample)
        value, taken_at = desk.book.values[0], desk.book.sampled_at[0]
        assert math.isnan(value) == math.isinf(taken_at)
        assert math.isnan(value) or taken_at <= now


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1000)), min_size=1, max_size=20))
def test_of_credible_samples_the_newest_stays(samples: list[tuple[int, int]]) -> None:
    desk = Desk()
    for index, (node, stamp) in enumerate(samples):
        desk.read(1000.0, **{"ab"[node]: (float(index), stamp)})
    for node in (0, 1):
        stamps = [stamp for each, stamp in samples if each == node]
        if stamps:
            first = next(index for index, (each, stamp) in enumerate(samples) if (each, stamp) == (node, max(stamps)))
            assert desk.book.values[node] == float(first)
