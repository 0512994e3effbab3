"""Quantities are read as Kubernetes reads them, exactly."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.api.quantity import MAX_INT64, milli_to_units, parse_milli, parse_uncapped_milli, parse_units
from kscheduler.errors import DecodeError

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")},
}


def exact(sign: str, digits: str, suffix: str) -> Fraction:
    """What the text means, by another way than the parser's."""
    factor = FACTORS[suffix] if suffix in FACTORS else Fraction(f"1{suffix}")
    return Fraction(digits) * factor * (-1 if sign == "-" else 1)


def round_away(value: Fraction) -> int:
    rounded = ceil(abs(value))
    return max(-MAX_INT64, min(rounded if value >= 0 else -rounded, MAX_INT64))


@pytest.mark.parametrize(
    ("text", "milli", "units"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("100m", 100, 1),
        ("1500m", 1500, 2),
        ("0.1", 100, 1),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("+2", 2000, 2),
        ("-2", -2000, -2),
        ("-100m", -100, -1),
        ("2Gi", 2 * 2**30 * 1000, 2 * 2**30),
        ("1.5Gi", 1536 * 2**20 * 1000, 1536 * 2**20),
        ("129M", 129_000_000_000, 129_000_000),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("12e-3", 12, 1),
        ("12e+3", 12_000_000, 12_000),
        ("1E", MAX_INT64, 10**18),
        ("1Ei", MAX_INT64, 2**60),
        (" 4 ", 4000, 4),
        ("007", 7000, 7),
    ],
)
def test_every_form_of_a_quantity_is_read(text: str, milli: int, units: int) -> None:
    assert (parse_milli(text, "f"), parse_units(text, "f")) == (milli, units)


@pytest.mark.parametrize("text", ["0.1m", "1u", "1n", "1e-99", "1e-99999999", "0.0000001"])
def test_a_little_is_rounded_up_and_never_to_nothing(text: str) -> None:
    assert (parse_milli(text, "f"), parse_units(text, "f")) == (1, 1)


def test_a_little_less_than_nothing_stays_negative() -> None:
    assert (parse_milli("-0.1m", "f"), parse_units("-0.1m", "f")) == (-1, -1)


@pytest.mark.parametrize("text", ["1e30", "1e99999", "9" * 300, "16Ei", "99999999999E", "9223372036854775808"])
def test_absurd_amounts_are_capped(text: str) -> None:
    assert (parse_milli(text, "f"), parse_units(text, "f")) == (MAX_INT64, MAX_INT64)
    assert (parse_milli(f"-{text}", "f"), parse_units(f"-{text}", "f")) == (-MAX_INT64, -MAX_INT64)


@pytest.mark.parametrize(
    ("number", "milli"), [(4, 4000), (0.5, 500), (1e-05, 1), (1.5e3, 1_500_000), (10**30, MAX_INT64)]
)
def test_numbers_of_hand_written_files_are_read_as_their_text(number: float, milli: int) -> None:
    assert parse_milli(number, "f") == milli


@pytest.mark.parametrize(
    "text",
    ["abc", "", "+", "-", ".", "1ki", "1KI", "1e", "1 Gi", "1Gi2", "1e3Ki", "0x10", "1_0", "٣", "nan", "inf", "m"],
)
def test_other_text_is_refused_with_field_and_value(text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        parse_milli(text, "spec.containers[0].resources.requests[cpu]")
    assert str(caught.value) == (
        f'spec.containers[0].resources.requests[cpu]: expected a quantity such as "100m" or "2Gi", got "{text}"'
    )


def test_a_refusal_does_not_repeat_a_book() -> None:
    with pytest.raises(DecodeError) as caught:
        parse_units("9" * 5000, "f")
    assert len(str(caught.value)) < 150


@given(
    sign=st.sampled_from(["", "+", "-"]),
    digits=st.from_regex(r"[0-9]{1,22}(\.[0-9]{0,12})?", fullmatch=True),
    suffix=st.sampled_from(sorted(FACTORS)) | st.from_regex(r"[eE][+-]?[0-9]{1,2}", fullmatch=True),
)
@example(sign="", digits="9223372036854775.807", suffix="")
def test_reading_agrees_with_fractions(sign: str, digits: str, suffix: str) -> None:
    text, value = sign + digits + suffix, exact(sign, digits, suffix)
    milli = round_away(value * 1000)
    assert parse_milli(text, "f") == milli
    if abs(milli) < MAX_INT64:
        # Units follow from thousandths, as the apiserver stores no less.
        assert parse_units(text, "f") == round_away(Fraction(milli, 1000))


@given(st.integers(-(10**21), 10**21))
def test_units_are_thousandths_rounded_away_from_zero(milli: int) -> None:
    assert milli_to_units(milli) == round_away(Fraction(milli, 1000))


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(DecodeError):
        assert -MAX_INT64 * 1000 <= parse_uncapped_milli(text, "f") <= MAX_INT64 * 1000
