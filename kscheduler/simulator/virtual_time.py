"""Time that costs nothing: an asyncio event loop whose clock jumps to the next timer when nothing is ready.

Rules: everything that is ready runs before time moves; timers fire at exactly the time they were set for; nothing
ever sleeps. The same program with the same inputs therefore takes the same path every time.
Not supported, by design: executor threads, sockets, subprocesses and signals. Their answers come in real time,
which this loop does not know; asking for a thread raises, asking for a socket raises NotImplementedError.
A program that can never go on (nothing ready, no timer) ends with `VirtualDeadlock`, which names who waits where.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kscheduler.errors import InternalError

T = TypeVar("T")

# Far beyond what a correct program needs within one instant; a `while True: await sleep(0)` meets it in seconds.
MAX_ROUNDS_PER_INSTANT = 20_000_000


class VirtualDeadlock(InternalError):
    """Nothing is ready and no timer is set: the program would wait forever."""


class TimeStandsStill(InternalError):
    """Tasks keep each other ready and virtual time never moves."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop on virtual time; starts at `start` seconds."""

    def __init__(self, start: float = 0.0, max_rounds_per_instant: int = MAX_ROUNDS_PER_INSTANT) -> None:
        super().__init__()
        self._now = start
        self._clock_resolution = math.ulp(start)
        self._rounds = 0  # of the loop, since time last moved
        self._max_rounds = max_rounds_per_instant
        # BaseEventLoop asks its selector to wait for the next timer. Ours jumps there instead.
        self._selector = _Jump(self)

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(f"no threads in virtual time: {func!r} was handed to an executor")

    def jump(self, timeout: float | None) -> None:
        """Called once a round, with the time to the next timer: 0 when something is ready, None without timers."""
        if timeout is None:
            raise VirtualDeadlock(f"nothing can happen any more at {self._now:g} s; waiting: {_waiting(self)}")
        if timeout > 0:
            timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
            self._now = max(self._now, timers[0].when())  # exact, where now + timeout would round
            # Timers before now + resolution are due: the smallest step that the float at this size can tell.
            self._clock_resolution = math.ulp(self._now)
            self._rounds = 0
            return
        self._rounds += 1
        if self._rounds > self._max_rounds:
            self._rounds = 0  # so that the tasks can be cancelled now
            raise TimeStandsStill(f"{self._max_rounds:,} rounds without progress at {self._now:g} s: {_waiting(self)}")

    # --- what BaseEventLoop asks of a concrete loop ---------------------------------------------------------------

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: there are no file descriptors, so no events."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps, so it need not be woken."""


class _Jump:
    """A stand-in for the selector."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop.jump(timeout)
        return []


class LoopClock:
    """A clock that shows an event loop's time: monotonic time is the loop's, wall time is `epoch` plus that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = 1_700_000_000.0) -> None:
        self.now = loop.time  # an attribute, not a method: one call less on a path taken per event
        self._epoch = epoch

    def wall(self) -> float:
        return self._epoch + self.now()


def run_virtual(
    main: Coroutine[Any, Any, T], *, start: float = 0.0, max_rounds_per_instant: int = MAX_ROUNDS_PER_INSTANT
) -> T:
    """Run `main` to its end in virtual time, cancel what it left behind, and return its result."""
    loop = VirtualTimeLoop(start, max_rounds_per_instant)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _cancel_all(loop: VirtualTimeLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(_settle(tasks))


async def _settle(tasks: set[asyncio.Task[Any]]) -> None:
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            context = {
                "message": "a task left behind in virtual time failed while it was cancelled",
                "exception": result,
            }
            asyncio.get_running_loop().call_exception_handler(context)


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    named = [f"{task.get_name()} ({_place(task)})" for task in tasks]
    more = f", and {len(named) - 20} more" if len(named) > 20 else ""
    return ", ".join(named[:20]) + more if named else "no task at all"


def _place(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    if not frames:
        return "no frame"
    frame = frames[-1]
    return f"{frame.f_code.co_name} at {frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
