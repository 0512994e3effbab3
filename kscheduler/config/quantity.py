"""Kubernetes quantities as doubles, for bounds, targets and ranges of metrics.

`kscheduler.api.quantity` parses the requests of pods exactly; a metric is a double anyway. Length and exponent are
limited, so that every quantity is a finite double. The CRD's schema has the same pattern.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

EXPECTED = 'expected a quantity such as "500m", "2Gi" or 80'
PATTERN = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
MAX_LENGTH = 40

_FORM = re.compile(PATTERN)
_MAX_INT64 = 2**63 - 1
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}  # power of ten
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}  # power of two


def parse_double(quantity: str | int | float) -> float:
    """Return the nearest double. Raises ValueError for a text that is not a quantity."""
    return float(parse_exact(quantity))


def parse_exact(quantity: str | int | float) -> Fraction:
    """Return the exact number. Raises ValueError for a text that is not a quantity."""
    if isinstance(quantity, int) and not isinstance(quantity, bool) and abs(quantity) <= _MAX_INT64:
        return Fraction(quantity)
    if isinstance(quantity, float) and math.isfinite(quantity):
        return Fraction(quantity)
    match = _FORM.fullmatch(quantity) if isinstance(quantity, str) and len(quantity) <= MAX_LENGTH else None
    if match is None:
        raise ValueError(EXPECTED)
    suffix = match[3] or ""
    number = Fraction(_completed(match.string.removesuffix(suffix)))
    if suffix in _BINARY:
        return number * (1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    scale: Fraction = Fraction(10) ** exponent
    return number * scale


def _completed(number: str) -> str:
    """Add a zero to a number like "1.", so that older Python versions can parse it as a fraction."""
    return number + "0" if number.endswith(".") else number
