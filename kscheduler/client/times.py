"""Points in time as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(unix_s: float) -> str:
    """Return a metav1.Time: whole seconds, as in conditions."""
    return _whole_second(int(unix_s))


@lru_cache(maxsize=64)  # a simulated cluster asks about the same second for each of its pods
def _whole_second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(unix_s: float) -> str:
    """Return a metav1.MicroTime: six decimals, as in Leases and Events."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
