"""An event loop in a thread of its own, and calls from one event loop to another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import uvloop

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs an event loop between `start` and `stop`."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for its result on the caller's loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def hand_over(self, function: Callable[[T], object]) -> Callable[[T], None]:
        """Return a function that has `function` called in the thread, soon, or when it starts."""

        def call(value: T) -> None:
            self.loop.call_soon_threadsafe(function, value)

        return call

    async def stop(self) -> None:
        """End the loop without blocking the caller's; tasks that still run in it are dropped. May be called twice."""
        await asyncio.get_running_loop().run_in_executor(None, self.end)

    def end(self) -> None:
        """End the loop, and wait for the thread. May be called twice, or before `start`."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


def across(
    loop: asyncio.AbstractEventLoop, function: Callable[P, Coroutine[Any, Any, T]]
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return `function` as a coroutine function for other loops: it runs in `loop`, cancelled with its caller."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(function(*args, **kwargs), loop))

    return call
