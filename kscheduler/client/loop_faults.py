"""Reports faults in callbacks of the event loop, which no caller is given."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)


def report_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a fault as the loop does by default, unless it is a connection that a reader hears of anyway.

    A connection may be reset while TLS has bytes left to send on it. uvloop then closes it, writes them all the same,
    and calls its own RuntimeError a fatal one (uvloop 0.23, `SSLProtocol._do_read`); the reader is given the reset.
    """
    error = context.get("exception")
    is_of_tls = str(context.get("message", "")).startswith("Fatal error on SSL protocol")
    if is_of_tls and isinstance(error, RuntimeError) and str(error).endswith("the handler is closed"):
        log.debug("connection was closed while TLS had bytes to send", extra={"err": str(error)})
        return
    loop.default_exception_handler(context)
