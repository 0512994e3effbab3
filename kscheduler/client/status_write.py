"""Writes the status of objects, and says what becomes of one that could not be written."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable

from kscheduler.errors import APIError, Conflict, Forbidden, NotFound


class Written(enum.Enum):
    """What became of a write."""

    DONE = enum.auto()
    DROPPED = enum.auto()  # the object is gone or another version, which is seen again; or a right is missing
    AGAIN = enum.auto()  # it must be repeated


async def write_status(write: Awaitable[object], what: str, log: logging.Logger, **about: str) -> Written:
    """Await a write. `what` names the status in the log, where `about` are fields; a missing right is a warning."""
    try:
        await write
    except (NotFound, Conflict):
        return Written.DROPPED
    except Forbidden as error:
        log.warning("%s not written", what, extra={**about, "err": str(error)})
        return Written.DROPPED
    except APIError as error:
        log.info("%s not written yet", what, extra={**about, "err": str(error)})
        return Written.AGAIN
    return Written.DONE


async def write_when_set(
    work: asyncio.Event, write_all: Callable[[], Awaitable[bool]], *, pause_s: float, gather_s: float = 0.0
) -> None:
    """Call `write_all` whenever `work` is set, which it clears. Runs until cancelled.

    `write_all` returns False if something is left to write; then it is called again after `pause_s`. `gather_s`: so
    long further changes are waited for, which are written together with the first.
    """
    while True:
        await work.wait()
        if gather_s:
            await asyncio.sleep(gather_s)
        work.clear()
        if not await write_all():
            await asyncio.sleep(pause_s)
            work.set()
