"""Runs the main task of `kscheduler run` to its end on an event loop that plugins may try to end.

Event loops let SystemExit and KeyboardInterrupt through: raised in a task or a timer that a plugin has started, one of
them stops the loop with the scheduler in it, as `loop.stop()` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from kscheduler.framework.fence import is_ctrl_c

log = logging.getLogger(__name__)

T = TypeVar("T")


def run_to_its_end(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, T]) -> T:
    """Return the result of `main`, or raise what it raises; what else would stop the loop is logged.

    Raises KeyboardInterrupt also for Ctrl-C.
    """
    task = loop.create_task(main)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done() or is_ctrl_c(error):
                raise
            log.error("a task or timer, such as a plugin's, tried to end the process; it runs on", exc_info=error)
        except RuntimeError:  # of the loop: it was stopped
            if task.done():
                raise
            log.error("the event loop was stopped, as by a plugin; it runs on")
