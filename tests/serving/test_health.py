"""The text of health endpoints, and the watchdog of a stuck leader."""

from __future__ import annotations

import logging

import pytest

from kscheduler.serving.health import Health, LeaderWatchdog
from tests.support.clocks import ManualClock


def raising() -> str | None:
    raise RuntimeError("broken")


@pytest.fixture
def health() -> Health:
    health = Health()
    health.add("readyz", "informer-sync", lambda: "pods are not listed yet")
    return health


def test_a_healthy_endpoint_says_ok() -> None:
    answer = Health().ask("livez")
    assert (answer.ok, answer.text) == (True, "ok")


def test_verbose_lists_the_checks() -> None:
    assert Health().ask("livez", verbose=True).text == "[+]ping ok\nlivez check passed\n"


def test_a_failure_lists_the_checks_and_withholds_the_reason(health: Health) -> None:
    answer = health.ask("readyz")
    assert not answer.ok
    assert answer.text == "[-]informer-sync failed: reason withheld\nreadyz check failed\n"


def test_a_check_that_fails_is_logged_once_and_again_when_it_passes(caplog: pytest.LogCaptureFixture) -> None:
    missing = ["pods", "pods", "nodes", "", "pods"]
    health = Health()
    health.add("readyz", "informer-sync", lambda: f"{missing[0]} are not listed yet" if missing[0] else None)
    with caplog.at_level(logging.INFO):
        while missing:
            health.ask("readyz")
            del missing[0]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "health check failed"),
        ("INFO", "health check passes again"),
        ("WARNING", "health check failed"),
    ]
    assert caplog.records[0].__dict__["reasons"] == ["informer-sync: pods are not listed yet"]


def test_another_check_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    health = Health()
    failing = {"sync"}
    for name in ("sync", "shutdown"):
        health.add("readyz", name, lambda name=name: "why" if name in failing else None)  # type: ignore[misc]
    health.ask("readyz")
    failing.add("shutdown")
    health.ask("readyz")
    assert [record.__dict__["reasons"] for record in caplog.records] == [["sync: why"], ["sync: why", "shutdown: why"]]


def test_an_excluded_check_is_not_run(health: Health) -> None:
    answer = health.ask("readyz", verbose=True, exclude=["informer-sync"])
    assert answer.ok
    assert "[+]informer-sync excluded: ok" in answer.text


def test_excluding_a_check_that_is_not_there_is_reported() -> None:
    text = Health().ask("livez", verbose=True, exclude=["absent"]).text
    assert (
        text == '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "absent"\nlivez check passed\n'
    )


def test_a_single_check_gives_its_reason(health: Health) -> None:
    answer = health.ask_one("readyz", "informer-sync")
    assert answer is not None
    assert (answer.ok, answer.text) == (False, "internal server error: pods are not listed yet\n")


def test_an_unknown_check_is_none(health: Health) -> None:
    assert health.ask_one("readyz", "absent") is None
    assert health.ask_one("absent", "ping") is None


def test_a_check_that_raises_has_failed() -> None:
    health = Health()
    health.add("healthz", "broken", raising)
    answer = health.ask_one("healthz", "broken")
    assert answer is not None
    assert answer.text == "internal server error: RuntimeError: broken\n"


def test_the_watchdog_fails_a_leader_that_has_not_renewed_for_its_lease_and_twenty_seconds() -> None:
    clock = ManualClock()
    renewed: list[float | None] = [0.0]
    watchdog = LeaderWatchdog(clock, "kube-scheduler", 15.0, lambda: renewed[0])
    clock.advance(35.0)
    assert watchdog() is None
    clock.advance(0.1)
    assert watchdog() == "failed election to renew leadership on lease kube-scheduler"
    renewed[0] = clock.now()
    assert watchdog() is None


def test_the_watchdog_is_content_with_a_standby() -> None:
    clock = ManualClock()
    watchdog = LeaderWatchdog(clock, "kube-scheduler", 15.0, lambda: None)
    clock.advance(1e6)
    assert watchdog() is None
