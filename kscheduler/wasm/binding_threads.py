"""Threads for what guests do in binding cycles: whoever waits for the outside there anyway can wait for a guest too.

On the event loop, a guest that takes its whole deadline for one pod would hold up every other pod. Decisions are
another matter, Reserve and Permit among them: the next one has to know how this one went.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 8  # so that slow guests leave room for others


class BindingThreads:
    """Made when first needed. For one event loop."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._here = threading.local()  # `is_one`: of these
        self._told: set[asyncio.Task[None]] = set()  # nobody else holds on to them

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns. If the caller is cancelled, work that has begun goes on to its end."""
        if self._executor is None:
            self._loop = asyncio.get_running_loop()
            self._executor = ThreadPoolExecutor(self._threads, "wasm-binding", initializer=self._begin)
        return await asyncio.wrap_future(self._executor.submit(work))

    @property
    def is_one_current(self) -> bool:
        """Is this code run by one of them?"""
        return getattr(self._here, "is_one", False)

    def hand_over(self, action: Callable[[], None]) -> None:
        """From one of them: the loop is to do this, soon and in order. Nothing happens if it has ended."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def tell(self, news: Coroutine[Any, Any, None]) -> None:
        """Run what nobody waits for; it raises nothing."""
        task = asyncio.get_running_loop().create_task(news)
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    def _begin(self) -> None:
        self._here.is_one = True

    def close(self) -> None:
        """Wait for what runs."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
