"""Runs work in threads of its own, which neither an interrupted caller nor the end of the program waits for.

A server that says nothing would hold up both, and so would a guest that takes minutes to compile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def begin_apart(work: Callable[[], T], name: str) -> Future[T]:
    """Begin to call `work` in a thread of this name."""
    found: Future[T] = Future()
    found.set_running_or_notify_cancel()  # it cannot be cancelled, whatever becomes of those that wait for it

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return found


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread and event loop of its own and return its result, even within a running event loop."""
    return begin_apart(partial(asyncio.run, work), "guest-fetch").result()
