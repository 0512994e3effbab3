"""Bounds the number of pods that a simulation reads or generates, because each one takes memory to its end."""

from __future__ import annotations

from kscheduler.counted import counted
from kscheduler.errors import ConfigError

# A million pods took 1.8 GiB, the report included.
DEFAULT_MAX_PODS = 3_000_000


def check_pods(where: str, count: int, most: int) -> None:
    """Raise ConfigError, naming the flag or the line, if there are more pods than the limit allows."""
    if count > most:
        raise ConfigError(
            f"{where}: expected at most {counted(most, 'pod')}, got more: each takes 2 KB of memory, and --max-pods "
            "allows more"
        )
