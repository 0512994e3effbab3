"""Exact quantities are parsed, computed and printed as apimachinery's `resource.Quantity`."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.exact_quantity import WRONG_FORMAT, WRONG_NUMBER, WRONG_SUFFIX, Format, Quantity, QuantityError

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-4", "e+20"]
NANO = Fraction(1, 10**9)
MAX_INT64 = (1 << 63) - 1

texts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.one_of(st.integers(0, 10**6), st.integers(0, 10**30)).map(str),
    st.one_of(st.just(""), st.integers(0, 10**12).map(lambda digits: f".{digits}")),
    st.sampled_from(SUFFIXES),
)
quantities = texts.map(Quantity.parse)


def exact(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


def meant(text: str) -> Fraction:
    """What the text says, by another way than the parser's."""
    if text.endswith("i"):
        return Fraction(text[:-2]) * Fraction(1024) ** ("KMGTPE".index(text[-2]) + 1)
    if text[-1] in "numkMGTPE":
        return Fraction(text[:-1]) * Fraction(1000) ** ("num kMGTPE".index(text[-1]) - 3)
    return Fraction(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("0.0000000000000000000000", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1536Mi", "1536Mi"),
        ("1023Ki", "1023Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("100000m", "100"),
        ("1e3", "1e3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("1E6", "1E6"),
        ("1E1", "10"),
        ("12e2", "1200"),
        ("1E", "1E"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1.5u", "1500n"),
        ("0.5Mi", "512Ki"),
        ("0.0001Ki", "102400u"),
        ("9Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("7Ei", "7Ei"),
        (".", "0"),
        ("m", "0"),
        ("-", "0"),
        # Texts that count as canonical are kept, although these are not.
        ("+1", "+1"),
        ("01", "01"),
        ("1.500", "1.500"),
        ("1.500k", "1.500k"),
        ("1.123k", "1.123k"),
        # A power of ten without a suffix of its own is dropped.
        ("1000000000000000000000", "1"),
        ("1e2147483647", "10e2147483646"),
    ],
)
def test_the_canonical_text_is_the_one_that_go_prints(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", WRONG_FORMAT),
        (" 1", WRONG_FORMAT),
        ("1 ", WRONG_FORMAT),
        ("1.2.3", WRONG_FORMAT),
        ("1-", WRONG_SUFFIX),
        ("--1", WRONG_SUFFIX),
        ("1_000", WRONG_FORMAT),
        ("١", WRONG_FORMAT),
        ("one", WRONG_FORMAT),
        ("1x", WRONG_FORMAT),
        ("1mm", WRONG_SUFFIX),
        ("1e", WRONG_SUFFIX),
        ("1i", WRONG_SUFFIX),
        ("1+5", WRONG_SUFFIX),
        ("1ki", WRONG_SUFFIX),
        ("1e9223372036854775808", WRONG_SUFFIX),
        ("1e" + "9" * 5000, WRONG_SUFFIX),
        ("Ei", WRONG_NUMBER),
    ],
)
def test_other_texts_are_refused_with_the_words_of_apimachinery(text: str, error: str) -> None:
    with pytest.raises(QuantityError) as refused:
        Quantity.parse(text)
    assert str(refused.value) == error


def test_a_served_quantity_may_be_padded_or_a_number() -> None:
    assert [str(Quantity.served(raw)) for raw in (" 5Gi ", 5, 0.5)] == ["5Gi", "5", "500m"]


@given(texts)
def test_a_quantity_is_exact_down_to_a_billionth_and_rounded_away_from_zero(text: str) -> None:
    value, wanted = exact(Quantity.parse(text)), meant(text)
    if text.endswith("i") and abs(wanted) > MAX_INT64:
        assert abs(value) in (MAX_INT64, abs(wanted))  # Go caps what it computes with big decimals
    else:
        assert abs(wanted) <= abs(value) < abs(wanted) + NANO


@given(texts)
def test_the_canonical_text_means_the_same_quantity(text: str) -> None:
    quantity = Quantity.parse(text)
    shown = str(quantity)
    if quantity.format is Format.DECIMAL_SI and abs(exact(quantity)) >= 10**21:
        return  # printed without its power of ten
    assert Quantity.parse(shown) == quantity


@given(quantities, quantities)
def test_comparing_compares_the_exact_values(a: Quantity, b: Quantity) -> None:
    assert a.compare(b) == (exact(a) > exact(b)) - (exact(a) < exact(b))
    assert (a == b) == (exact(a) == exact(b))
    assert a != b or hash(a) == hash(b)


@given(quantities, quantities)
def test_sums_and_differences_are_exact(a: Quantity, b: Quantity) -> None:
    assert exact(a.add(b)) == exact(a) + exact(b)
    assert exact(a.subtract(b)) == exact(a) - exact(b)
    assert a.add(b).subtract(b) == a


@given(quantities, quantities)
def test_a_sum_has_the_format_of_its_first_operand_unless_that_is_zero(a: Quantity, b: Quantity) -> None:
    assert a.add(b).format is (b.format if a.is_zero else a.format)


@given(quantities, quantities)
def test_a_product_is_exact_and_has_the_format_of_its_first_operand(a: Quantity, b: Quantity) -> None:
    assert exact(a.multiply(b)) == exact(a) * exact(b)
    assert a.multiply(b).format is a.format


def test_a_product_is_printed_in_canonical_form() -> None:
    for first, second, product in (("4Gi", "2", "8Gi"), ("1500m", "2", "3"), ("3", "500m", "1500m"), ("0", "7", "0")):
        assert str(Quantity.parse(first).multiply(Quantity.parse(second))) == product


def test_a_sum_that_leaves_int64_is_computed_as_a_big_decimal() -> None:
    largest = Quantity.of(MAX_INT64)
    assert largest.as_int64() == MAX_INT64
    total = largest.add(Quantity.of(1))
    assert (total.unscaled, total.big, total.as_int64()) == (MAX_INT64 + 1, True, None)
    assert total.subtract(Quantity.of(1)).as_int64() is None  # a decimal stays one


def test_the_smallest_int64_is_printed_without_a_suffix_because_go_cannot_negate_it() -> None:
    assert str(Quantity.of(-MAX_INT64 - 1, Format.BINARY_SI)) == "-9223372036854775808"
    assert str(Quantity.of(-MAX_INT64 - 1 + 1024, Format.BINARY_SI)) == "-9007199254740991Ki"


def test_the_least_int64_is_subtracted_as_in_go() -> None:
    least = Quantity.of(-MAX_INT64 - 1)
    assert str(Quantity.of(1).subtract(least)) == "-9223372036854775807"
    assert Quantity.of(-1).subtract(least).as_int64() is None  # which overflows, so it is computed as a big decimal
    assert str(Quantity.of(-1).subtract(least)) == "9223372036854775807"


@pytest.mark.parametrize(
    ("text", "integer", "units"),
    [
        ("5", 5, 5),
        ("5k", 5000, 5000),
        ("5Gi", 5 << 30, 5 << 30),
        ("5m", None, 1),
        ("-5m", None, -1),
        ("1000m", None, 1),
        ("1e18", 10**18, 10**18),
        ("1e19", None, 0),
        ("1.5Gi", None, 3 << 29),
        ("9Ei", None, MAX_INT64),
    ],
)
def test_integers_are_those_that_go_takes_for_integers(text: str, integer: int | None, units: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.as_int64(), quantity.value()) == (integer, units)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0.0), ("1500m", 1.5), ("1.5Gi", 1.5 * 2**30), ("1e400", float("inf")), ("-1e400", float("-inf"))],
)
def test_floats_are_the_nearest_that_go_finds(text: str, number: float) -> None:
    assert Quantity.parse(text).approximate() == number


def test_huge_exponents_are_compared_without_being_written_out() -> None:
    huge, larger = Quantity.parse("1e2000000000"), Quantity.parse("123456789012345678901e2000000000")
    assert huge < larger
    assert huge > Quantity.parse("9Ei")
    assert huge.add(Quantity.of(0)) == huge
    with pytest.raises(QuantityError, match="more than 200000 digits"):
        huge.add(Quantity.of(1))


def test_numbers_of_many_digits_are_parsed_and_printed() -> None:
    digits = "123456789" * 1000
    assert str(Quantity.parse(digits)) == digits
    assert str(Quantity.parse(f"0.{digits}")) == "123456790n"
