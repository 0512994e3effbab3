"""Converts seconds since the Unix epoch to Kubernetes' form: RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(wall_s: float) -> str:
    return _whole(int(wall_s))


@lru_cache(maxsize=64)
def _whole(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
