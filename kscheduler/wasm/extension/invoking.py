"""Calls one export on one instance."""

from __future__ import annotations

import logging
from typing import Any

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.call import Call

log = logging.getLogger(__name__)


def invoke(instance: Instance, export: str, call: Call) -> Any:
    instance.data = call
    value = instance.call(export)
    forget_output(instance)
    return value


def forget_output(instance: Instance) -> None:
    output = instance.output
    if output.data or output.dropped:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("guest printed", extra={"output": output.text()})
        output.clear()
