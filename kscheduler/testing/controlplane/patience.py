"""Waits for what a real cluster will do, as long as there is any activity, however slow the machine is.

A limit in seconds of real time would only measure the machine. Instead, a wait fails when all that could bring about
the awaited condition has been idle for long: no thread of a process started by the tests ran or was runnable, the
waiting program itself was not held up, and the progress state given by the caller did not change.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from kscheduler.testing.controlplane.faults import HarnessError

# Longer than any pause of a program under test: 15 s of a Lease, 30 s of an informer, and 60 s after which an informer
# lists a kind again that the apiserver did not know.
IDLE_S = 120.0
# Ends a wait although a process is active, in case it loops for ever. The limit of a whole test is in pyproject.toml.
CEILING_S = 900.0
POLL_S = 0.05
LOOK_S = 0.5  # seconds between checks of all processes, each of which takes some milliseconds
ROUNDING_S = POLL_S / 2  # tolerance for rounding errors in sums of pauses
WHAT = "what the caller waits for"
HELD_UP = 3.0  # if a pause took longer than planned by this factor, the waiting program did not get the CPU

T = TypeVar("T")


class Patience:
    """The limit of one wait. The caller repeats: check the condition, pause, and report the pause's length to `waited`.

    `state` returns the progress as the caller sees it, for example a count. Each change of it restarts the time for
    which everything may be idle, and the last one is in the error message.
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
        """Account for a pause of POLL_S, or a shorter one.

        Raises HarnessError if everything has been idle for too long.
        """
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
        """Pause this thread for POLL_S, and account for it."""
        began_s = time.monotonic()
        time.sleep(POLL_S)
        self.waited(time.monotonic() - began_s)

    async def pause_loop(self) -> None:
        """Pause this task for POLL_S, and account for it; other tasks run meanwhile."""
        began_s = time.monotonic()
        await asyncio.sleep(POLL_S)
        self.waited(time.monotonic() - began_s)

    def _shown(self) -> str:
        return "" if self._state is None else f"; last seen: {self._last}"


def eventually(is_so: Callable[[], object], what: str = WHAT, *, state: Callable[[], object] | None = None) -> None:
    """Wait until `is_so` returns a true value. Raises HarnessError, naming `what`, if there is no more activity."""
    patience = Patience(what, state)
    while not is_so():
        patience.pause()


async def until(is_so: Callable[[], object], what: str = WHAT, *, state: Callable[[], object] | None = None) -> None:
    """Wait in a task until `is_so` returns a true value.

    Raises HarnessError, naming `what`, if there is no more activity.
    """
    patience = Patience(what, state)
    while not is_so():
        await patience.pause_loop()


async def ended(work: Awaitable[T], what: str) -> T:
    """Await `work` and return its result.

    Cancels it and raises HarnessError, naming `what`, if there is no more activity.
    """
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
    """Wait until `is_so` returns a true value, checked at each notification of `changed`.

    Raises HarnessError if `patience` is exhausted.
    """
    with changed:
        while not is_so():
            began_s = time.monotonic()
            changed.wait(POLL_S)
            patience.waited(time.monotonic() - began_s)


def is_anything_working(process: str = "self") -> bool:
    """Return True if the process or a descendant has a thread that runs, is runnable or waits for the disk.

    `process`: its id, or "self". The calling thread itself does not count.
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
