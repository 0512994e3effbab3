"""Waiting for something a real cluster will do, with a limit that is generous because it only matters on failure."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.controlplane.harness.faults import HarnessError

LIMIT_S = 30.0
POLL_S = 0.05


def eventually(is_so: Callable[[], object], what: str, *, limit_s: float = LIMIT_S) -> None:
    """Return when `is_so` answers something true; HarnessError naming `what` when it does not in time."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            raise HarnessError(f"waited {limit_s:.0f} s in vain: {what}")
        time.sleep(POLL_S)
