"""Converts points in time to and from the formats of Kubernetes APIs."""

from __future__ import annotations

import functools
import math
import re
from datetime import UTC, datetime, timedelta

_FORM = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,9})?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)

_TWO_DIGITS = [f"{number:02}" for number in range(60)]


def rfc3339(unix_s: float) -> str:
    """Format a metav1.Time with whole seconds, as in conditions."""
    days, second = divmod(int(unix_s), 86_400)
    return f"{_day(days)}T{_TWO_DIGITS[second // 3_600]}:{_TWO_DIGITS[second // 60 % 60]}:{_TWO_DIGITS[second % 60]}Z"


@functools.lru_cache(maxsize=64)  # strftime takes ten times as long as all the rest
def _day(unix_days: int) -> str:
    return datetime.fromtimestamp(unix_days * 86_400, UTC).strftime("%Y-%m-%d")


def micro_time(unix_s: float) -> str:
    """Format a metav1.MicroTime with six decimals, as in Leases and Events."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@functools.lru_cache(maxsize=4_096)  # the nodes of one answer share a few seconds
def unix_seconds(text: str) -> float:
    """Parse an RFC 3339 time into Unix seconds; NaN if the text is not one."""
    match = _FORM.fullmatch(text)
    if match is None:
        return math.nan
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
    try:
        moment = datetime(*map(int, match.group(1, 2, 3, 4, 5, 6)), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return math.nan
    offset = timedelta(hours=int(hours), minutes=int(minutes)) if sign else timedelta()
    moment = moment + offset if sign == "-" else moment - offset
    return moment.timestamp() + float(fraction or 0)
