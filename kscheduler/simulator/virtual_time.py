"""Runs coroutines in virtual time: an asyncio event loop whose clock jumps to the next timer when nothing is ready.

Rules: every callback that is ready runs before time moves; timers fire at exactly the time they were set for, and
those of the same time in the order in which they were set; nothing ever sleeps. The same program with the same inputs
therefore always takes the same path. A step costs a tenth of one of asyncio's loops: there is no selector, no debug
mode, and callbacks run without a context unless they are given one, as tasks do.

Not supported, by design: executor threads, sockets, subprocesses and signals, whose results come in real time.
Starting a thread raises RuntimeError, using a socket NotImplementedError. A program that can never continue (nothing
ready, no timer) ends with `VirtualDeadlock`, whose message lists the waiting tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from kscheduler._fast import NOTHING_LEFT, TIME_STANDS_STILL, CallQueue
from kscheduler.errors import InternalError

T = TypeVar("T")

# Far more rounds than a correct program needs at one instant; an endless `await sleep(0)` loop exceeds it in seconds.
MAX_ROUNDS_PER_INSTANT = 20_000_000
# A task that still runs so long after it was cancelled ignores that; it would run for ever.
SETTLED_S = 3600.0
EPOCH_S = 1_700_000_000.0  # Unix time at the beginning, where nothing else is known


class VirtualDeadlock(InternalError):
    """Raised when nothing is ready and no timer is set, so that the program would wait for ever."""


class TimeStandsStill(InternalError):
    """Raised when tasks keep waking each other at one instant, so that virtual time never moves."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An asyncio event loop in virtual time, which begins at `start` seconds."""

    def __init__(self, start: float = 0.0, max_rounds_per_instant: int = MAX_ROUNDS_PER_INSTANT) -> None:
        super().__init__()
        self._max_rounds = max_rounds_per_instant
        # Attributes rather than methods: a simulation makes several of these calls for each pod.
        self._calls = calls = CallQueue(start)
        self.time = calls.time  # type: ignore[method-assign]
        self.call_soon = calls.call_soon  # type: ignore[assignment, method-assign]
        self.call_soon_threadsafe = calls.call_soon  # type: ignore[assignment, method-assign]  # asyncio calls it, too
        self.call_at = calls.call_at  # type: ignore[assignment, method-assign]
        self.call_later = calls.call_later  # type: ignore[assignment, method-assign]
        self.is_at_last_call = calls.is_at_last_call
        # A future asks for both: there is no debug mode.
        self.get_debug = bool  # type: ignore[method-assign]
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]

    def stop(self) -> None:
        super().stop()
        self._calls.stop()

    def close(self) -> None:
        super().close()
        self._calls.clear()

    def _run_once(self) -> None:
        """Run rounds until the loop is to stop: each makes ready what is due, then calls what was ready by then."""
        ended = self._calls.run(self._max_rounds, self._report)
        if ended == NOTHING_LEFT:
            raise VirtualDeadlock(f"nothing can happen any more at {self.time():g} s; waiting: {_waiting(self)}")
        if ended == TIME_STANDS_STILL:
            rounds = f"{self._max_rounds:,} rounds without progress"
            raise TimeStandsStill(f"{rounds} at {self.time():g} s: {_waiting(self)}")

    def _report(self, callback: Callable[..., object], error: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(f"no threads in virtual time: {func!r} was handed to an executor")

    def _write_to_self(self) -> None:
        """Do nothing: asyncio calls this to wake a sleeping loop, and this loop never sleeps."""


class LoopClock:
    """The clock of a virtual-time loop: `now` is the loop's time, and wall-clock time is `epoch` plus that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = EPOCH_S) -> None:
        self.now = loop.time  # an attribute, not a method: one call less on a path taken per event
        self._epoch = epoch

    def wall(self) -> float:
        return self._epoch + self.now()


def run_virtual(
    main: Coroutine[Any, Any, T], *, start: float = 0.0, max_rounds_per_instant: int = MAX_ROUNDS_PER_INSTANT
) -> T:
    """Run `main` to its end in virtual time, cancel the tasks it left running, and return its result."""
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
    ended, _ = await asyncio.wait(tasks, timeout=SETTLED_S)
    for task in ended:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            context = {
                "message": "a task left behind in virtual time failed while it was cancelled",
                "exception": error,
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
