"""Quantities as doubles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.quantity import MAX_LENGTH, PATTERN, parse_double, parse_exact

MEANINGS = {
    "500m": 0.5,
    "1.5": 1.5,
    "1.": 1.0,
    ".5k": 500.0,
    "-2Ki": -2048.0,
    "+1e3": 1000.0,
    "1E-3": 0.001,
    "1E": 1e18,
    "3n": 3e-9,
    80: 80.0,
    0.6: 0.6,
}
SENSELESS = ["", "m", "1 ", " 1", "1x", "1e100", "0x1", "１", "1_0", "e3", "1.2.3", "nan", "inf", "1" * 41]


@pytest.mark.parametrize(("text", "value"), MEANINGS.items(), ids=map(str, MEANINGS))
def test_a_quantity_is_the_nearest_double(text: str | int | float, value: float) -> None:
    assert parse_double(text) == value


@pytest.mark.parametrize("text", [*SENSELESS, math.nan, math.inf, True, 2**63])
def test_what_is_no_quantity_is_refused(text: str | int | float) -> None:
    with pytest.raises(ValueError, match='expected a quantity such as "500m"'):
        parse_exact(text)


@given(st.from_regex(PATTERN, fullmatch=True, alphabet=st.characters(max_codepoint=127)))
def test_whatever_the_pattern_allows_is_a_finite_double(text: str) -> None:
    if len(text) <= MAX_LENGTH:
        assert math.isfinite(parse_double(text))
