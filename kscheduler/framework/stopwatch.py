"""The stopwatch of parts that nobody measures: the real one is the owner's, as the core reads no clock."""

from __future__ import annotations


def stands_still() -> float:
    return 0.0
