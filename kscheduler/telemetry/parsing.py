"""Parses the parts of sources' answers: numbers, durations, and names of nodes.

Anything but a finite number becomes NaN, which the caller counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kscheduler.config.duration import Duration
from kscheduler.config.quantity import parse_double

MAX_LENGTH = 64  # characters; longer texts are not parsed
# Tried in this order if no label is configured: the labels that most rules and exporters use.
NODE_LABELS = ("node", "instance")
LABELS_TRIED = " or ".join(NODE_LABELS)


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
    """Return a Kubernetes quantity as a double, such as 1.5 for "1500m"; NaN if it is not one."""
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


def span_s(text: str) -> float:
    """Return a duration such as "15s" in seconds; 0 if it is negative or not a duration."""
    try:
        return max(Duration.parse(text).seconds, 0.0)
    except ValueError:
        return 0.0


def node_of(labels: Mapping[str, str], label: str) -> str:
    """Return the node's name from this label, or from the usual ones if `label` is "", without a port; "" for none."""
    if label:
        return _without_port(labels.get(label, ""))
    return next((_without_port(labels[known]) for known in NODE_LABELS if labels.get(known)), "")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() and ":" not in name else host
