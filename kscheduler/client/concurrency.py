"""Runs several coroutines as one unit, and waits with a timeout.

`run_together` is how this package starts sibling tasks: whatever ends it (a failure, a cancellation) ends all of them,
and it returns when the last has finished. No task outlives its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from kscheduler.errors import StoppedItself

T = TypeVar("T")


async def run_together(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all coroutines to their end. The first that fails cancels the others, and its exception is raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        await cancel_and_wait(*tasks)


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel those tasks that still run and wait for all of them, ignoring their exceptions."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


class Signal:
    """A cheaper asyncio.Event for one event loop.

    Before Python 3.12, waiting on asyncio.Event looks up the running loop, which costs a system call each time.
    """

    __slots__ = ("_is_set", "_loop", "_waiting")

    def __init__(self) -> None:
        self._is_set = False
        self._loop: asyncio.AbstractEventLoop | None = None  # once somebody has waited
        self._waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Wake all that wait; until `clear` is called, later waits return at once."""
        self._is_set = True
        if self._waiting:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        """Return once the signal is set."""
        if self._is_set:
            return
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            self._waiting.remove(waiting)


async def wait_event(event: asyncio.Event, timeout_s: float) -> bool:
    """Return True if the event was set within `timeout_s` seconds."""
    if event.is_set():
        return True
    waiter = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiter], timeout=timeout_s)
    finally:
        waiter.cancel()
    return event.is_set()


async def within(
    timeout_s: float,
    coroutine: Coroutine[Any, Any, T],
    give_up: Callable[[T], object] | None = None,
    *,
    leave_after_s: float | None = None,
) -> T:
    """Return the coroutine's result. Cancels it and raises TimeoutError after `timeout_s` seconds.

    Raises StoppedItself if the coroutine raises a CancelledError though nobody cancelled it, or anything else that is
    no `Exception`: let through, it would end the task of the caller. It is the cause.

    Before Python 3.12, asyncio.wait_for loses a cancellation that arrives together with the result. Here the result is
    dropped in that case and passed to `give_up`, which can close it.

    Waits until the cancelled coroutine has ended; for code that may ignore its cancellation, `leave_after_s` says for
    how long. Then it goes on without anybody who waits for it.
    """
    task = asyncio.ensure_future(coroutine)
    try:
        await asyncio.wait([task], timeout=timeout_s)
    except asyncio.CancelledError:
        await abandon(give_up, task, leave_after_s=leave_after_s)
        raise
    if not task.done():
        await abandon(give_up, task, leave_after_s=leave_after_s)
        raise TimeoutError
    try:
        return task.result()
    except Exception:
        raise
    except BaseException as error:
        raise StoppedItself(f"it raised {type(error).__name__}") from error


async def abandon(
    give_up: Callable[[T], object] | None, *tasks: asyncio.Future[T], leave_after_s: float | None = None
) -> None:
    """Cancel the tasks and wait for them, for `leave_after_s` seconds at most if given.

    If one returns a result nevertheless, `give_up` is called with it.
    """
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=leave_after_s)
    finally:  # some of them may not be done, as when this is cancelled
        for task in tasks:
            _drop(give_up, task)


def _drop(give_up: Callable[[T], object] | None, task: asyncio.Future[T]) -> None:
    if not task.done():
        task.add_done_callback(partial(_drop, give_up))
    elif not task.cancelled() and task.exception() is None and give_up is not None:
        give_up(task.result())
