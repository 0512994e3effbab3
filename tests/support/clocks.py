"""Clocks: the machine's, and one that the test moves."""

from __future__ import annotations

import time


class RealClock:
    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


CLOCK = RealClock()
