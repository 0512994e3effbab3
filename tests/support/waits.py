"""Waiting in virtual time. For what real processes do there is kscheduler/testing/controlplane/patience.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STEP_S = 0.01  # between looks


async def until(is_so: Callable[[], object], within_s: float = 60.0, describe: Callable[[], str] = str) -> float:
    """Let virtual time pass until `is_so` answers something true; how many seconds it took.

    AssertionError with what `describe` answers when that is longer than `within_s`.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not is_so():
        assert loop.time() < began_s + within_s, f"not within {within_s:g} s. {describe()}"
        await asyncio.sleep(STEP_S)
    return loop.time() - began_s
