from __future__ import annotations

import math

import pytest

from kscheduler.client.times import micro_time, rfc3339, unix_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000.5),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000.0),
        ("2023-11-14T17:13:20-05:00", 1_700_000_000.0),
    ],
)
def test_rfc_3339_times_are_read(text: str, seconds: float) -> None:
    assert unix_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-13-40T00:00:00Z", "2023-11-14T22:13:20", "9999-99-99T99:99:99Z"]
)
def test_what_is_no_time_is_nan(text: str) -> None:
    assert math.isnan(unix_seconds(text))


def test_times_are_written_in_whole_seconds_for_conditions_and_with_six_decimals_for_leases() -> None:
    assert rfc3339(1_700_000_000.9) == "2023-11-14T22:13:20Z"
    assert micro_time(1_700_000_000.5) == "2023-11-14T22:13:20.500000Z"
