"""Threads for calls of guests in binding cycles, which wait for the apiserver anyway and can wait for a guest too.

On the event loop, a guest that uses its whole deadline for one pod would delay every other pod. Scheduling cycles,
including Reserve and Permit, do not use these threads, because the next decision depends on the result of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 8  # enough that a few slow guests do not block all others


class BindingThreads:
    """A pool of threads for calls of guests, started when first needed. It belongs to one event loop."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._here = threading.local()  # `is_one`: this thread belongs to the pool
        self._tasks: set[asyncio.Task[None]] = set()  # keeps tasks without a waiting caller alive

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work on a thread and return its result. Work that has begun goes on if the caller is cancelled."""
        if self._executor is None:
            self._loop = asyncio.get_running_loop()
            self._executor = ThreadPoolExecutor(self._threads, "wasm-binding", initializer=self._begin)
        return await asyncio.wrap_future(self._executor.submit(work))

    @property
    def is_one_current(self) -> bool:
        """True if the calling code runs on a thread of this pool."""
        return getattr(self._here, "is_one", False)

    def hand_over(self, action: Callable[[], None]) -> None:
        """Run the action on the event loop, soon and in order. To be called on a thread of the pool.

        The action is dropped if the loop has ended.
        """
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, which must not raise, on the event loop without waiting for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self) -> None:
        self._here.is_one = True

    def close(self) -> None:
        """Wait for the work in progress and end the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
