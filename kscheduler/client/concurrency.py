"""Running sibling coroutines as one, on Pythons without TaskGroup, and waiting with a limit.

`run_together` is the only way tasks are started here: whatever ends it (a failure, a cancellation) ends all of
them, and it returns when the last has finished. No task outlives its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_together(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run all to the end. The first to fail cancels the others, and its exception is raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        await cancel_and_wait(*tasks)


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs and wait for all of it; exceptions of the cancelled are dropped."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


async def wait_event(event: asyncio.Event, timeout_s: float) -> bool:
    """Whether the event was set within `timeout_s` seconds."""
    if event.is_set():
        return True
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except asyncio.TimeoutError:
        return event.is_set()
    return True
