"""Shows a simulation's progress on stderr: a bar on a terminal, otherwise a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO

from kscheduler.counted import counted
from kscheduler.simulator.units import seconds

if TYPE_CHECKING:
    from kscheduler.simulator.progress_bar import BarProgress

LINE_PERIOD_S = 3.0


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
            f"simulating: {arrived:,} of {counted(self._total, 'pod')} arrived, {bound:,} placed, {pending:,} waiting, "
            f"{seconds(virtual_s)} of virtual time",
            file=self._out,
            flush=True,
        )

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        pass


def progress_on(total: int, out: TextIO | None = None) -> BarProgress | PlainProgress:
    """Return a bar if the stream is a terminal, else plain lines. `out` None: stderr."""
    out = out or sys.stderr
    if not out.isatty():
        return PlainProgress(total, out)
    # Only for a terminal: rich takes long to import.
    from rich.console import Console

    from kscheduler.simulator.progress_bar import BarProgress

    return BarProgress(total, Console(file=out))
