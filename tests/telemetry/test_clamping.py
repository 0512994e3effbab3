from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.metric_policy import Clamp
from kscheduler.telemetry.clamping import Bounds, Clamping, median

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_without_bounds_every_value_stays() -> None:
    assert Clamping(Clamp()).bounds([1.0, 1e300]) == Bounds(-math.inf, math.inf)


def test_fixed_bounds_are_quantities() -> None:
    bounds = Clamping(Clamp(min="500m", max="2k")).bounds([])
    assert [bounds.apply(value) for value in (0.0, 1.0, 3000.0)] == [0.5, 1.0, 2000.0]


def test_an_outlier_is_taken_for_so_many_deviations_from_the_median() -> None:
    bounds = Clamping(Clamp(outliers=3.0)).bounds([10.0, 11.0, 12.0, 13.0, 1e9])
    assert bounds == Bounds(9.0, 15.0)  # median 12, deviations 0 1 1 2 and a huge one


def test_where_most_values_are_equal_none_is_an_outlier() -> None:
    assert Clamping(Clamp(outliers=3.0)).bounds([0.0, 0.0, 0.0, 7.0]) == Bounds()


def test_of_two_values_none_is_an_outlier() -> None:
    assert Clamping(Clamp(outliers=1.0)).bounds([0.0, 7.0]) == Bounds()


def test_fixed_bounds_hold_beside_those_of_outliers() -> None:
    bounds = Clamping(Clamp(min=0, max=100, outliers=3.0)).bounds([1.0, 2.0, 3.0, 1e9])
    assert (bounds.least, bounds.most) == (0.0, 5.5)  # median 2.5, deviation 1; 1e9 counts as 100


@given(st.lists(FINITE, min_size=1))
def test_the_median_lies_among_the_values(values: list[float]) -> None:
    ascending = sorted(values)
    assert ascending[0] <= median(ascending) <= ascending[-1]


@given(st.lists(FINITE), st.floats(0, 100), FINITE)
def test_a_clamped_value_is_finite(values: list[float], outliers: float, value: float) -> None:
    assert math.isfinite(Clamping(Clamp(outliers=outliers)).bounds(values).apply(value))
