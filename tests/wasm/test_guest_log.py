"""A guest may log some hundred messages at once and then a few a second; what is left out is counted and reported."""

from __future__ import annotations

import logging

import pytest

from kscheduler.wasm.guest_log import NO_LOG_LIMIT, GuestLog, LogRules
from tests.support.clocks import ManualClock

RULES = LogRules(burst=5, per_s=2.0, report_s=60.0)
INFO, ERROR = 0, 2


class LimitedLog:
    """A guest's log with a clock, and the reports of what was left out."""

    def __init__(self, caplog: pytest.LogCaptureFixture, rules: LogRules = RULES, now: float = 0.0) -> None:
        caplog.set_level(logging.INFO)
        self._records = caplog.records
        self.clock = ManualClock(now)
        self.log = GuestLog("Policy", lambda: self.clock.now(), rules)

    def logged_of(self, messages: int, severity: int = INFO) -> int:
        """Return how many of so many messages at once are logged."""
        return sum(self.log.admits(severity) for _ in range(messages))

    @property
    def left_out(self) -> list[int]:
        assert all(vars(record)["plugin"] == "Policy" for record in self._records)
        return [vars(record)["left_out"] for record in self._records]


def test_a_burst_is_logged_and_then_so_many_a_second(caplog: pytest.LogCaptureFixture) -> None:
    guest_log = LimitedLog(caplog)
    assert guest_log.logged_of(100) == 5
    guest_log.clock.advance(2)
    assert guest_log.logged_of(100) == 4
    guest_log.clock.advance(3600)
    assert guest_log.logged_of(100) == 5


def test_errors_are_logged_beside_a_flood_of_other_messages(caplog: pytest.LogCaptureFixture) -> None:
    guest_log = LimitedLog(caplog)
    guest_log.logged_of(1000, INFO)
    assert guest_log.logged_of(3, ERROR) == 3


def test_what_is_left_out_is_reported_at_the_first_message_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guest_log = LimitedLog(caplog)
    guest_log.logged_of(100)
    assert guest_log.left_out == [1]
    guest_log.clock.advance(59)
    guest_log.logged_of(50)  # five of them are logged
    assert guest_log.left_out == [1]
    guest_log.clock.advance(1)
    guest_log.logged_of(1)
    assert guest_log.left_out == [1, 94 + 45]


def test_a_guest_that_logs_little_is_never_limited(caplog: pytest.LogCaptureFixture) -> None:
    guest_log = LimitedLog(caplog)
    for _ in range(1000):
        guest_log.clock.advance(0.5)
        assert guest_log.logged_of(1) == 1
    assert guest_log.left_out == []


def test_a_clock_that_is_replaced_by_an_earlier_one_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    guest_log = LimitedLog(caplog, now=1_000_000.0)
    guest_log.logged_of(100)
    guest_log.clock = ManualClock(10.0)
    guest_log.logged_of(1)
    assert guest_log.left_out == [1, 95]


def test_commands_that_show_each_message_have_no_limit(caplog: pytest.LogCaptureFixture) -> None:
    assert LimitedLog(caplog, NO_LOG_LIMIT).logged_of(10_000) == 10_000
