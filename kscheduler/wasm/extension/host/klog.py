"""The module `k8s.io/klog`, which writes a guest's log messages to the log of the scheduler.

Messages at or above the severity threshold are written. Guests can read the threshold and skip the others themselves.
"""

from __future__ import annotations

import logging

from kscheduler.wasm.engine import Instance
from kscheduler.wasm.extension.host.buffers import take_start
from kscheduler.wasm.extension.host.call import call_of
from kscheduler.wasm.guest_log import GuestLog

log = logging.getLogger("kscheduler.wasm.guest")

MAX_LINES = 64  # messages of one call; a guest that logs in a loop must not fill a disk
MAX_BYTES = 4096  # bytes of one message

_LEVELS = (
    logging.INFO,
    logging.WARNING,
    logging.ERROR,
    logging.ERROR,
)  # by klog's severity; fatal does not end the process


class Klog:
    def __init__(self, plugin: str, threshold: int, limit: GuestLog) -> None:
        self._plugin = plugin
        self._threshold = threshold
        self._limit = limit

    def severity(self, instance: Instance) -> int:
        return self._threshold

    def log(self, instance: Instance, severity: int, message: int, size: int) -> None:
        if self._is_wanted(instance, severity):
            self._write(severity, take_start(instance, message, size, MAX_BYTES), "")

    def logs(self, instance: Instance, severity: int, message: int, size: int, pairs: int, pairs_size: int) -> None:
        """Log a message with keys and values, each of which ends with a NUL byte."""
        if self._is_wanted(instance, severity):
            text = take_start(instance, pairs, pairs_size, MAX_BYTES) or ""
            words = text.split("\0")[:-1] if text.endswith("\0") else text.split("\0")
            shown = " ".join(f"{key}={value}" for key, value in zip(words[::2], [*words[1::2], ""], strict=False))
            self._write(severity, take_start(instance, message, size, MAX_BYTES), shown)

    def _is_wanted(self, instance: Instance, severity: int) -> bool:
        if not self._threshold <= severity < len(_LEVELS) or not log.isEnabledFor(_LEVELS[severity]):
            return False
        call = call_of(instance)
        call.lines += 1
        if call.lines == MAX_LINES:
            log.warning("guest logs too much in one call; the rest is left out", extra={"plugin": self._plugin})
        return call.lines < MAX_LINES and self._limit.admits(severity)

    def _write(self, severity: int, message: str | None, pairs: str) -> None:
        fields = {"plugin": self._plugin} | ({"values": pairs} if pairs else {})
        shown = "a message outside its memory" if message is None else message.removesuffix("\n")
        log.log(_LEVELS[severity], "%s", shown, extra=fields)
