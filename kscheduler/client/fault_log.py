"""Logs unexpected exceptions of this program; one that recurs with each repetition is logged less and less often."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 10.0  # from the first report of a fault to its next; twice as long each time
LONGEST_PAUSE_S = 3600.0
MOST_REMEMBERED = 1000  # faults; of one that was forgotten the next report is a first one again

_Key = tuple[str, str, type[Exception]]


class _Reported:
    __slots__ = ("kept_back", "next_s", "pause_s")

    def __init__(self, now_s: float) -> None:
        self.pause_s = FIRST_PAUSE_S
        self.next_s = now_s + FIRST_PAUSE_S  # by the loop's clock
        self.kept_back = 0  # since the last report


class FaultLog:
    """Logs exceptions; those with the same type, message and pod count as one fault. Use it from one event loop."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._reported: OrderedDict[_Key, _Reported] = OrderedDict()  # the one met longest ago first

    def report(self, message: str, fault: Exception, *, namespace: str, name: str, uid: str) -> None:
        """Log the exception with its traceback, unless an equal one was logged shortly before."""
        now_s = asyncio.get_running_loop().time()
        key = (uid, message, type(fault))
        known = self._reported.get(key)
        kept_back = 0
        if known is None:
            self._reported[key] = _Reported(now_s)
            if len(self._reported) > MOST_REMEMBERED:
                self._reported.popitem(last=False)
        else:
            self._reported.move_to_end(key)
            if now_s < known.next_s:
                known.kept_back += 1
                return
            kept_back, known.kept_back = known.kept_back, 0
            known.pause_s = min(2 * known.pause_s, LONGEST_PAUSE_S)
            known.next_s = now_s + known.pause_s
        self._log.error(
            message, exc_info=fault, extra={"pod": f"{namespace}/{name}", "not_logged_meanwhile": kept_back}
        )


def report_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception in a callback as the event loop does by default, except for a reset that a reader gets anyway.

    When a connection is reset while TLS still has bytes to send, uvloop closes it, writes the bytes nevertheless and
    reports its own RuntimeError as fatal (uvloop 0.23, `SSLProtocol._do_read`).
    """
    error = context.get("exception")
    is_of_tls = str(context.get("message", "")).startswith("Fatal error on SSL protocol")
    if is_of_tls and isinstance(error, RuntimeError) and str(error).endswith("the handler is closed"):
        log.debug("connection was closed while TLS had bytes to send", extra={"err": str(error)})
        return
    loop.default_exception_handler(context)
