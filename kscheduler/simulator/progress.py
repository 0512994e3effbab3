"""Shows a simulation's progress on stderr: a bar on a terminal, otherwise a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from kscheduler.simulator.units import seconds

LINE_PERIOD_S = 3.0
BAR_PERIOD_S = 0.1


class PlainProgress:
    """Prints a line of progress every few seconds of real time."""

    def __init__(self, total: int, out: TextIO) -> None:
        self._total = total
        self._out = out
        self._next_s = time.monotonic() + LINE_PERIOD_S

    def update(self, *, arrived: int, bound: int, pending: int, virtual_s: float) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + LINE_PERIOD_S
        print(
            f"simulating: {arrived:,} of {self._total:,} pods arrived, {bound:,} placed, {pending:,} waiting, "
            f"{seconds(virtual_s)} of virtual time",
            file=self._out,
            flush=True,
        )

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


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


def progress_on(total: int, out: TextIO | None = None) -> BarProgress | PlainProgress:
    """Return a bar if the stream is a terminal, else plain lines. `out` None: stderr."""
    out = out or sys.stderr
    console = Console(file=out)
    return BarProgress(total, console) if console.is_terminal else PlainProgress(total, out)
