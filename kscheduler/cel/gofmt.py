"""Prints numbers and quotes text as Go's fmt and strconv do."""

from __future__ import annotations

import math

_LARGE_EXPONENT = 6  # from here on, %v prints an exponent


def format_float(number: float) -> str:
    """Return a float as Go's %v: the fewest digits that distinguish it from other floats, large and small as 1e+06."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    mantissa, exponent = _shortest(number)
    if -4 <= exponent < _LARGE_EXPONENT:
        return format_plain(number)
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_plain(number: float) -> str:
    """Return a float without an exponent, with as few digits as distinguish it from other floats."""
    mantissa, exponent = _shortest(number)
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return sign + digits.ljust(exponent + 1, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def _shortest(number: float) -> tuple[str, int]:
    """Return the shortest mantissa, with one digit before the point, and the exponent of ten."""
    text = repr(number)
    sign = "-" if text.startswith("-") else ""
    body, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = body.partition(".")
    digits = whole + fraction
    power = len(whole) - 1 + int(exponent or 0)
    stripped = digits.lstrip("0")
    if not stripped:
        return f"{sign}0", 0
    power -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0") or "0"
    return sign + stripped[0] + (f".{stripped[1:]}" if len(stripped) > 1 else ""), power


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quote(text: str) -> str:
    """Return a text in double quotes as Go's %q."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
