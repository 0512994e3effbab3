"""Values are in the first bucket that holds them, and bounds of buckets are written as Go writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler._fast import Histogram
from kscheduler.observability.instruments import bound_text, cumulative, exponential


@given(st.lists(st.floats(0, 100)))
def test_each_value_is_in_the_first_bucket_that_holds_it(values: list[float]) -> None:
    histogram = Histogram(exponential(0.01, 2, 10))
    for value in values:
        histogram.observe(value)
    for text, count in cumulative(histogram):
        assert count == sum(value <= float(text) for value in values)
    assert histogram.count == len(values)


@pytest.mark.parametrize(
    ("bound", "text"), [(1.0, "1"), (0.25, "0.25"), (1e-5, "1e-05"), (float("inf"), "+Inf"), (16.384, "16.384")]
)
def test_bounds_are_written_as_go_writes_them(bound: float, text: str) -> None:
    assert bound_text(bound) == text
