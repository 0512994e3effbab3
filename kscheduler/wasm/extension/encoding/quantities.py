"""Quantities in the canonical form that Kubernetes writes: "1.5Gi" becomes "1536Mi" and "0.1" becomes "100m".

Kubernetes leaves a text unchanged if it recognises it as canonical, which it does in few cases only. The same rule is
implemented here, since guests may compare texts.
"""

from __future__ import annotations

import functools
import re

from kscheduler.errors import DecodeError

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # power of ten
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # power of two
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}

_MAX_INT64 = (1 << 63) - 1
_DIGITS = 18  # digits of a decimal that Kubernetes keeps as a plain integer
_BINARY_DIGITS = 14  # that limit for binary suffixes, less the digits that the suffix takes
_NANO = 9  # decimal places kept
_MAX_EXPONENT = 1000  # larger exponents are refused
_MAX_LENGTH = 500
_CACHE_SIZE = 8192


@functools.lru_cache(maxsize=_CACHE_SIZE)
def canonical_quantity(quantity: str | int | float) -> str:
    """Return the text that Kubernetes' encoder writes for a quantity. Raises DecodeError if it is not a quantity."""
    text = str(quantity).strip()
    match = _FORM.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None or not (match.group(2) or match.group(3)):
        raise DecodeError(f'expected a quantity such as "100m" or "2Gi", got {text[:60]!r}')
    sign, suffix = match.group(1), match.group(4) or ""
    whole, places = match.group(2).lstrip("0") or "0", match.group(3) or ""
    if text == "0":
        return text
    if suffix in _BINARY:
        return _binary(text, sign, whole, places, _BINARY[suffix])
    exponential = suffix not in _DECIMAL
    exponent = int(suffix[1:]) if exponential else _DECIMAL[suffix]
    if abs(exponent) > _MAX_EXPONENT:
        raise DecodeError(f"expected a quantity with an exponent up to {_MAX_EXPONENT}, got {text[:60]!r}")
    return _decimal(text, sign, whole, places, exponent, exponential=exponential)


def _decimal(text: str, sign: str, whole: str, places: str, exponent: int, *, exponential: bool) -> str:
    digits, scale = whole + places, exponent - len(places)
    is_plain = len(digits) <= _DIGITS and scale >= -_NANO
    if is_plain and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0":
        return text
    mantissa, scale = _to_nano(int(digits), scale)
    return _written(-mantissa if sign == "-" else mantissa, scale, exponential=exponential)


def _binary(text: str, sign: str, whole: str, places: str, power: int) -> str:
    is_plain = not places and len(whole) <= _BINARY_DIGITS - power * 3 // 10
    if is_plain and int(whole) & 7:
        return text
    mantissa, scale = _to_nano(int(whole + places) << power, -len(places))
    if not is_plain and mantissa > _MAX_INT64 * 10**-scale:
        mantissa, scale = _MAX_INT64, 0
    value = -mantissa if sign == "-" else mantissa
    amount, rest = divmod(value, 10**-scale)
    if rest or -1024 < amount < 1024:
        return _written(value, scale, exponential=False)
    factors = 0
    while amount and amount % 1024 == 0:
        amount //= 1024
        factors += 1
    return f"{amount}{_BINARY_SUFFIX.get(factors * 10, '')}"


def _to_nano(mantissa: int, scale: int) -> tuple[int, int]:
    """Return (mantissa, scale) with at most nine decimal places, rounded up so that no small amount becomes zero."""
    if scale >= -_NANO:
        return (mantissa * 10**scale, 0) if scale > 0 else (mantissa, scale)
    return -(-mantissa // 10 ** (-_NANO - scale)), -_NANO


def _written(mantissa: int, scale: int, *, exponential: bool) -> str:
    """Write mantissa · 10^scale as the shortest integer with a suffix (m, k, M, ...) for a power of a thousand.

    With `exponential`, it has an exponent that is a multiple of three instead.
    """
    if not mantissa:
        return "0"
    while mantissa % 10 == 0:
        mantissa //= 10
        scale += 1
    mantissa *= 10 ** (scale % 3)
    scale -= scale % 3
    if exponential:
        return f"{mantissa}e{scale}" if scale else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX.get(scale, '')}"
