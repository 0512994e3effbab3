"""Figures are formatted as the page formats them."""

from __future__ import annotations

import pytest

from kscheduler.simulator.units import percent


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.4125, 1, "41.3 %"),  # as toFixed does; half to even would be 41.2
        (-0.4125, 1, "-41.3 %"),
        (0.2625, 1, "26.3 %"),
        (1 / 3, 2, "33.33 %"),
        (0.0, 1, "0.0 %"),
        (1.0, 0, "100 %"),
    ],
)
def test_a_tie_is_rounded_away_from_zero_as_on_the_page(share: float, digits: int, text: str) -> None:
    assert percent(share, digits) == text
