"""Kubernetes quantities ("100m", "2Gi", "1e3") as exact integers.

A quantity has a precision of a thousandth and is rounded away from zero, as the apiserver does with every amount it
stores, so that a tiny request does not become none. Above 2^63 - 1 it is capped. A negative amount stays negative;
whether that is valid is decided by the code that reads the field. White space around the text is ignored, as in
Kubernetes.
"""

from __future__ import annotations

import functools
import re

from kscheduler.errors import DecodeError

MAX_INT64 = (1 << 63) - 1
EXPECTED = 'expected a quantity such as "100m" or "2Gi"'

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # power of ten
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # power of two
_MILLI = 3  # decimal places kept

# A power of ten past this one only says "far too much" or "next to nothing": the digits before it are fewer.
_MAX_EXPONENT = 1000
_MAX_LENGTH = 500
_SHOWN = 60

# Pods of one workload repeat the same few texts; nodes differ in memory, hence the room.
_CACHE_SIZE = 32_768


def parse_milli(quantity: str | int | float, field: str) -> int:
    """Return thousandths, rounded away from zero. Raises DecodeError naming `field`."""
    milli = parse_uncapped_milli(quantity, field)
    return max(-MAX_INT64, min(milli, MAX_INT64))


def parse_units(quantity: str | int | float, field: str) -> int:
    """Return whole units, rounded away from zero. Raises DecodeError naming `field`."""
    return milli_to_units(parse_uncapped_milli(quantity, field))


def parse_uncapped_milli(quantity: str | int | float, field: str) -> int:
    """Return thousandths, for sums that are only rounded and capped at the end. Raises DecodeError naming `field`."""
    milli = _parse(quantity)
    if milli is None:
        shown = str(quantity)
        raise DecodeError(f'{field}: {EXPECTED}, got "{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."}"')
    return milli


def milli_to_units(milli: int) -> int:
    """Convert thousandths to whole units, rounded away from zero and capped."""
    units = -(-milli // 1000) if milli >= 0 else milli // 1000
    return max(-MAX_INT64, min(units, MAX_INT64))


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _parse(quantity: str | int | float) -> int | None:
    """Return thousandths, capped at those of 2^63 - 1 units; None if the text is not a quantity."""
    text = str(quantity).strip() if len(str(quantity)) <= _MAX_LENGTH else ""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4) or ""
    if not whole and not fraction:
        return None
    magnitude = min(_scale(int(whole + fraction), len(fraction), suffix), MAX_INT64 * 1000)
    return -magnitude if sign == "-" else magnitude


def _scale(digits: int, places: int, suffix: str) -> int:
    """Return digits / 10^places times the suffix, in thousandths, rounded up."""
    power_of_two = _BINARY.get(suffix)
    if power_of_two is not None:
        return _times_power_of_ten(digits << power_of_two, _MILLI - places)
    power_of_ten = _DECIMAL.get(suffix)
    if power_of_ten is None:
        power_of_ten = int(suffix[1:])
    return _times_power_of_ten(digits, power_of_ten + _MILLI - places)


def _times_power_of_ten(value: int, exponent: int) -> int:
    exponent = max(-_MAX_EXPONENT, min(exponent, _MAX_EXPONENT))
    power: int = 10 ** abs(exponent)
    return value * power if exponent >= 0 else -(-value // power)
