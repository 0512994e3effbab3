"""Numbers as metrics bring them: Kubernetes quantities without loss of small ones, and the floats of Prometheus."""

from __future__ import annotations

import math
import re

MAX_LENGTH = 64  # of a text that is looked at

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|(n|u|m|k|M|G|T|P|E)|([KMGTPE]i))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # power of ten
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # power of two


def number(quantity: str | int | float) -> float:
    """A quantity as a double ("1500m" is 1.5), or NaN if it is none.

    `api.quantity` is for amounts that pods ask for: it rounds up to a thousandth, which here would be a wrong value.
    """
    if isinstance(quantity, int | float):
        return _finite(quantity)
    match = _FORM.fullmatch(quantity) if len(quantity) <= MAX_LENGTH else None
    if match is None:
        return math.nan
    digits, exponent, decimal, binary = match.groups()
    if binary:
        return float(digits) * (1 << _BINARY[binary])
    # One conversion of the whole text, so that the double is the nearest there is.
    return _finite(float(digits + (f"e{_DECIMAL[decimal]}" if decimal else exponent or "")))


def _finite(value: int | float) -> float:
    try:
        as_double = float(value)
    except OverflowError:
        return math.nan
    return as_double if math.isfinite(as_double) else math.nan


def prometheus_number(text: object) -> float:
    """The value of a sample, which Prometheus writes as text; NaN for what is no finite number."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return math.nan
    try:
        return _finite(float(text))
    except ValueError:
        return math.nan
