"""Runs a grid of simulations: traces × clusters × configurations × seeds, resumable, and compares the results.

    for result in kscheduler.sweep.sweep("grid.yaml", seeds=range(42, 52), executor=client.get_executor()):
        print(result.config, result.seed, result.figures["placed"])

It is imported only by its command (`kscheduler sweep`) and by programs that use `sweep`.
"""

from __future__ import annotations

from kscheduler.sweep.results import Result
from kscheduler.sweep.sweeping import sweep

__all__ = ["Result", "sweep"]
