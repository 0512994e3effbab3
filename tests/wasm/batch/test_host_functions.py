"""What a guest of the batch ABI logs, and how much of it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kscheduler.wasm.batch.host_functions import CallContext, host_functions
from kscheduler.wasm.guest_log import GuestLog, LogRules
from tests.support.clocks import ManualClock

RULES = LogRules(burst=10, per_s=1.0)


class LoggingGuest:
    """An instance that is inside a call, with a text in its memory."""

    def __init__(self, log_severity: int = 0) -> None:
        self.clock = ManualClock()
        self.context = CallContext("Policy", GuestLog("Policy", self.clock.now, RULES), log_severity)
        self.data = SimpleNamespace(context=self.context)
        (self._log,) = (each.function for each in host_functions(lambda: 0) if each.name == "log")

    def read(self, address: int, size: int) -> bytes:
        return b"hello"[address : address + size]

    def log(self, level: int) -> None:
        """Log a line in a call of its own."""
        self.context.begin(None)
        self._log(self, level, 0, 5)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[Any]:
    return [vars(each)["line"] for each in caplog.records if each.levelno == level and hasattr(each, "line")]


def test_a_guest_that_logs_at_each_call_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    guest = LoggingGuest()
    for _ in range(100):
        guest.log(0)
    guest.log(2)
    guest.clock.advance(1)
    for _ in range(100):
        guest.log(0)
    assert lines(caplog, logging.INFO) == ["hello"] * 11
    assert lines(caplog, logging.ERROR) == ["hello"]


def test_lines_that_nobody_sees_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    guest = LoggingGuest()
    for _ in range(100):
        guest.log(0)
    assert caplog.records == []
