"""Points in time as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(unix_s: float) -> str:
    """Return a metav1.Time: whole seconds, as in conditions."""
    return datetime.fromtimestamp(int(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(unix_s: float) -> str:
    """Return a metav1.MicroTime: six decimals, as in Leases and Events."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
