"""Parses the numbers of sources to doubles. Anything but a finite number becomes NaN, which the caller counts."""

from __future__ import annotations

import math

from kscheduler.config.quantity import parse_double

MAX_LENGTH = 64  # characters; longer texts are not parsed


def finite(value: object) -> float:
    """Return a number of a JSON document as a double; NaN if it is not a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        as_double = float(value)
    except OverflowError:
        return math.nan
    return as_double if math.isfinite(as_double) else math.nan


def quantity(value: object) -> float:
    """Return a Kubernetes quantity as a double, 1.5 for "1500m"; NaN if it is none."""
    if isinstance(value, str):
        try:
            return parse_double(value)
        except ValueError:
            return math.nan
    return finite(value)


def float_text(value: object) -> float:
    """Return the value of a Prometheus sample, which is sent as text; NaN if it is not a finite number."""
    if not isinstance(value, str) or len(value) > MAX_LENGTH:
        return math.nan
    try:
        return finite(float(value))
    except ValueError:
        return math.nan
