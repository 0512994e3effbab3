"""/debug/flags/v, by which the verbosity of the log is changed while the scheduler runs, as in kube-scheduler.

    curl -X PUT --data 4 https://localhost:10259/debug/flags/v

A restart, which would forget why a pod waits, is not needed for more lines about it. Source: k8s.io/apiserver,
pkg/server/routes/flags.go.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from aiohttp import web

from kscheduler.input.int32 import MAX_INT32
from kscheduler.serving.listener import Handler

log = logging.getLogger(__name__)

PATH = "/debug/flags/v"


def verbosity_switch(set_verbosity: Callable[[int], None]) -> Handler:
    """Return the handler of PUT requests, whose body is the new verbosity."""

    async def answer(request: web.Request) -> web.StreamResponse:
        text = (await request.text()).strip()
        if not re.fullmatch("[0-9]+", text) or int(text) > MAX_INT32:
            raise web.HTTPBadRequest(text=f"expected a verbosity from 0 to {MAX_INT32}, got {text[:40]!r}")
        set_verbosity(int(text))
        log.info("verbosity of the log changed", extra={"verbosity": int(text)})
        return web.Response(text=f"successfully set klog.logging.verbosity to {text}\n")

    return answer
