"""How throughput is sampled, and percentiles taken, as scheduler_perf does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.workloads.throughput import percentile, samples, summary


def test_first_second_with_a_binding_only_says_from_where_to_count() -> None:
    assert samples([0.5, 0.6, 1.5, 2.5, 2.6], 0.0, 3.0) == [1.0, 2.0]


def test_seconds_without_a_binding_are_added_to_the_next() -> None:
    assert samples([0.5, 3.5, 3.6, 3.7], 0.0, 4.0) == [1.0, 1.0, 1.0]


def test_summary_has_scheduler_perf_s_buckets() -> None:
    assert summary([float(number) for number in range(1, 101)]) == {
        "Average": pytest.approx(50.5),
        "Perc50": 50.0,
        "Perc90": 90.0,
        "Perc95": 95.0,
        "Perc99": 99.0,
    }


@given(st.lists(st.floats(0.0, 20.0), min_size=1), st.floats(1.0, 25.0))
def test_samples_never_count_a_binding_twice(bound_s: list[float], ended_s: float) -> None:
    bound_s.sort()
    assert sum(samples(bound_s, 0.0, ended_s)) <= len(bound_s) + 1e-6


@given(st.lists(st.floats(0.0, 100.0), min_size=1), st.sampled_from([50, 90, 95, 99]))
def test_so_many_of_a_hundred_are_not_above_the_percentile(values: list[float], part: int) -> None:
    ordered = sorted(values)
    limit = percentile(ordered, part)
    assert sum(value <= limit for value in values) >= len(values) * part / 100
