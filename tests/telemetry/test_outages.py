from __future__ import annotations

from kscheduler.telemetry.outages import MAX_KINDS, Outage


def news(*reasons: tuple[float, str]) -> list[float]:
    """When there was something to log."""
    outage = Outage()
    return [now for now, reason in reasons if outage.is_news(reason, now)]


def test_a_reason_that_goes_on_is_logged_once() -> None:
    assert news(*((15.0 * number, "connection refused") for number in range(1000))) == [0.0]


def test_another_reason_is_logged_at_once_and_so_is_the_first_when_it_returns_later() -> None:
    assert news((0.0, "refused"), (15.0, "401"), (30.0, "bad query"), (90.0, "refused")) == [0.0, 15.0, 30.0, 90.0]


def test_reasons_that_differ_by_numbers_alone_are_one() -> None:
    assert news((0.0, "the newest sample is 37 s old"), (15.0, "the newest sample is 52.5 s old")) == [0.0]


def test_reasons_that_alternate_are_logged_once_a_minute_each() -> None:
    alternating = [(10.0 * number, "ab"[number % 2]) for number in range(60)]
    assert len(news(*alternating)) <= 20


def test_the_latest_reason_is_known_whether_it_was_logged_or_not() -> None:
    outage = Outage()
    for number in range(3 * MAX_KINDS):
        outage.is_news(f"no node {chr(65 + number)}", 0.0)
        assert outage.reason == f"no node {chr(65 + number)}"
