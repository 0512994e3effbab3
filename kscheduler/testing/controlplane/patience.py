"""Waiting for what a real cluster will do: as long as anything moves, however slow the machine is.

No wait has a limit in seconds of the clock on the wall, which would only measure the machine. A wait gives up when all
that could bring the thing about has been idle for long: no thread of a process that the tests started ran or wanted
to, the waiting program itself was not held up, and the state that the caller may name did not change.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from kscheduler.testing.controlplane.faults import HarnessError

# More than any pause that a program under test makes by itself: 15 s of a Lease, 30 s of an informer, 60 s in which
# a kind that was missing is looked for again.
IDLE_S = 120.0
# Only so that a run ends in which a process spins for ever. pyproject.toml has the one for all that waits elsewhere.
CEILING_S = 900.0
POLL_S = 0.05
LOOK_S = 0.5  # between looks at the processes, which cost some milliseconds
ROUNDING_S = POLL_S / 2  # of sums of pauses
WHAT = "what the caller waits for"
HELD_UP = 3.0  # a pause that took so many times as long as it should: the waiting program did not get the CPU

T = TypeVar("T")


class Patience:
    """What is left of a wait. The caller looks, pauses, says how long the pause took, and looks again.

    `state` is what the caller sees of the progress: a count, or a text. Each change of it restores all patience, and
    it is shown when that is exhausted.
    """

    def __init__(self, what: str, state: Callable[[], object] | None = None, *, idle_s: float = IDLE_S) -> None:
        self._what = what
        self._state = state
        self._limit_s = idle_s
        self._began_s = time.monotonic()
        self._idle_s = 0.0
        self._paused_s = 0.0  # since the last look
        self._was_held_up = False
        self._last = state() if state is not None else None

    def waited(self, pause_s: float) -> None:
        """Account for a pause of POLL_S, or of less if something happened. HarnessError when patience is exhausted."""
        self._paused_s += min(pause_s, POLL_S)
        self._was_held_up = self._was_held_up or pause_s > HELD_UP * POLL_S
        if self._paused_s < min(LOOK_S, self._limit_s) - ROUNDING_S:
            return
        if self._state is not None and (now := self._state()) != self._last:
            self._last, self._idle_s = now, 0.0
        elif not self._was_held_up and not is_anything_working():
            self._idle_s += self._paused_s
        self._paused_s, self._was_held_up = 0.0, False
        if self._idle_s >= self._limit_s - ROUNDING_S:
            raise HarnessError(f"{self._what}: waited in vain, nothing moved for {self._idle_s:.1f} s{self._shown()}")
        if time.monotonic() - self._began_s >= CEILING_S:
            raise HarnessError(f"{self._what}: not within {CEILING_S:.0f} s, though processes work{self._shown()}")

    def pause(self) -> None:
        """Pause, of a thread."""
        began_s = time.monotonic()
        time.sleep(POLL_S)
        self.waited(time.monotonic() - began_s)

    async def pause_loop(self) -> None:
        """Pause, while the event loop goes on."""
        began_s = time.monotonic()
        await asyncio.sleep(POLL_S)
        self.waited(time.monotonic() - began_s)

    def _shown(self) -> str:
        return "" if self._state is None else f"; last seen: {self._last}"


def eventually(is_so: Callable[[], object], what: str = WHAT, *, state: Callable[[], object] | None = None) -> None:
    """Return when `is_so` answers something true; HarnessError naming `what` when nothing moves any more."""
    patience = Patience(what, state)
    while not is_so():
        patience.pause()


async def until(is_so: Callable[[], object], what: str = WHAT, *, state: Callable[[], object] | None = None) -> None:
    """The same, while the event loop goes on."""
    patience = Patience(what, state)
    while not is_so():
        await patience.pause_loop()


async def ended(work: Awaitable[T], what: str) -> T:
    """What `work` gives; HarnessError naming `what` when nothing moves any more, and it is cancelled."""
    task, patience = asyncio.ensure_future(work), Patience(what)
    try:
        while True:
            began_s = time.monotonic()
            await asyncio.wait({task}, timeout=POLL_S)
            if task.done():
                return task.result()
            patience.waited(time.monotonic() - began_s)
    finally:
        task.cancel()


def notified(changed: threading.Condition, is_so: Callable[[], object], patience: Patience) -> None:
    """Return when `is_so`, which is asked again at each notification; HarnessError as from `patience`."""
    with changed:
        while not is_so():
            began_s = time.monotonic()
            changed.wait(POLL_S)
            patience.waited(time.monotonic() - began_s)


def is_anything_working(process: str = "self") -> bool:
    """Whether a thread runs, wants to or waits for the disk: of the process or of those that it started, or they, but
    for the thread that asks.
    """
    own = threading.get_native_id()
    processes = [process]
    while processes:
        for thread in Path(f"/proc/{processes.pop()}/task").glob("*"):
            try:
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                processes += (thread / "children").read_text().split()
            except (OSError, IndexError):  # it has ended
                continue
            if state in "RD" and thread.name != str(own):
                return True
    return False
