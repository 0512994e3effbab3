"""Binding cycles in flight: bounded in number, each in a task of its own, all waited for when draining."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class BindingTasks:
    """`on_change` is called whenever one ends, since there is room for another then."""

    def __init__(self, limit: int, on_change: Callable[[], None]) -> None:
        self._limit = limit
        self._on_change = on_change
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def has_room(self) -> bool:
        return len(self._tasks) < self._limit

    def start(self, binding: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(binding)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._on_change()
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a binding cycle raised", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(context)

    async def drain(self, timeout_s: float) -> int:
        """Wait for all, at most so long; returns how many are still not done."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)
        return len(self._tasks)

    async def cancel(self) -> None:
        """Stop all at once: for a scheduler that may not bind any more."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
