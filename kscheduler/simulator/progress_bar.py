"""The progress of a simulation as a bar on a terminal."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kscheduler.simulator.units import seconds

BAR_PERIOD_S = 0.1


class BarProgress:
    """Draws a progress bar of pods that have arrived and pods that are bound."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._next_s = 0.0
        self._bar = Progress(
            TextColumn("simulating"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            auto_refresh=False,  # no thread: the simulation refreshes it
        )
        self._task: TaskID = self._bar.add_task("pods", total=max(1, total), detail="")

    def update(self, *, arrived: int, bound: int, pending: int, virtual_s: float) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + BAR_PERIOD_S
        detail = f"{pending:,} waiting, {seconds(virtual_s)} of virtual time"
        self._bar.update(self._task, completed=arrived - pending, detail=detail)
        self._bar.refresh()

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._bar.stop()
