"""Histograms of metrics."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.testing.kernels import load_compiled, reference
from tests.support.skips import NOT_BUILT, missing_tool

BOUNDS = (0.1, 1.0, 2.5)


def test_a_value_equal_to_a_bound_belongs_to_the_bucket_below_it(fast: ModuleType) -> None:
    histogram = fast.Histogram(BOUNDS)
    for value in (0.0, 0.1, 0.11, 1.0, 2.6):
        histogram.observe(value)
    assert (histogram.counts, histogram.count) == ([2, 2, 0, 1], 5)
    assert histogram.sum == pytest.approx(3.81)
    assert histogram.bounds == BOUNDS


def test_a_batch_counts_one_value_many_times(fast: ModuleType) -> None:
    histogram = fast.Histogram(BOUNDS)
    histogram.observe_many(2.0, 3)
    assert (histogram.counts, histogram.sum) == ([0, 0, 3, 0], 6.0)


def test_a_histogram_without_bounds_only_counts(fast: ModuleType) -> None:
    histogram = fast.Histogram(())
    histogram.observe(7.0)
    assert (histogram.counts, histogram.sum) == ([1], 7.0)


@given(
    st.lists(st.floats(allow_nan=False, width=32), max_size=30, unique=True).map(sorted).map(tuple),
    st.lists(st.floats(width=32), max_size=50),
)
def test_both_forms_have_the_same_counts(bounds: tuple[float, ...], values: list[float]) -> None:
    compiled = load_compiled()
    if compiled is None:
        missing_tool(NOT_BUILT)
    forms = [compiled.Histogram(bounds), reference.Histogram(bounds)]
    for form in forms:
        for value in values:
            form.observe(value)
    assert forms[0].counts == forms[1].counts
    sums = [form.sum for form in forms]
    assert sums[0] == sums[1] or all(map(math.isnan, sums))
