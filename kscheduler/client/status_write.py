"""Writes the status of an object, and says what becomes of one that could not be written."""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable

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
