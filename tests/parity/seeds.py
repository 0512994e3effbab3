"""The seeds of cases that nobody has seen before: how many is up to each test, where they begin to the environment."""

from __future__ import annotations

import os
import random

FIRST = int(os.environ.get("KSCHEDULER_PARITY_SEED") or random.SystemRandom().randrange(1 << 40))


def fresh_seeds(variable: str, usual: int) -> range:
    """So many as the environment variable says."""
    return range(FIRST, FIRST + int(os.environ.get(variable) or usual))
