"""Go's notation of durations, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.duration import MAX_NANOSECONDS, Duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("15s", 15_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("300ms", 300_000_000),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("2μs", 2_000),
        ("-2s", -2_000_000_000),
        ("+2s", 2_000_000_000),
        ("0", 0),
        ("0s", 0),
        ("1.0000000009s", 1_000_000_000),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text).nanoseconds == nanoseconds


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1m-30s", "1e3s", ".s", "--1s", "١s", "15s\n"])
def test_what_go_refuses_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration") as caught:
        Duration.parse(text)
    assert text in str(caught.value)


def test_a_duration_beyond_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="292 years"):
        Duration.parse("2562048h")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (90_000_000_000, "1m30s"),
        (600_000_000_000, "10m0s"),
        (3_600_000_000_001, "1h0m0.000000001s"),
        (-1_500_000, "-1.5ms"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@given(st.integers(-MAX_NANOSECONDS, MAX_NANOSECONDS))
def test_what_is_written_reads_back_the_same(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == Duration(nanoseconds)


def test_durations_compare_by_length_and_zero_is_false() -> None:
    assert Duration.parse("999ms") < Duration.parse("1s") <= Duration.parse("1000ms")
    assert not Duration(0)
    assert Duration.parse("1m").seconds == 60.0
    assert len({Duration.parse("60s"), Duration.parse("1m")}) == 1
