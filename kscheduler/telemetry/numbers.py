"""Numbers as sources write them, as doubles. What is no finite number becomes NaN, for whoever counts those."""

from __future__ import annotations

import math

from kscheduler.config.quantity import parse_double

MAX_LENGTH = 64  # of a text that is looked at


def finite(value: object) -> float:
    """A number of a JSON document."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        as_double = float(value)
    except OverflowError:
        return math.nan
    return as_double if math.isfinite(as_double) else math.nan


def quantity(value: object) -> float:
    """A Kubernetes quantity: "1500m" is 1.5."""
    if isinstance(value, str):
        try:
            return parse_double(value)
        except ValueError:
            return math.nan
    return finite(value)


def float_text(value: object) -> float:
    """The value of a sample, which Prometheus writes as text."""
    if not isinstance(value, str) or len(value) > MAX_LENGTH:
        return math.nan
    try:
        return finite(float(value))
    except ValueError:
        return math.nan
