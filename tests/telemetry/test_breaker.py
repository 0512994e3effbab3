from __future__ import annotations

from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Breaker as Settings
from kscheduler.telemetry.breaker import Breaker, BreakerState


def broken(failures: int = 3) -> Breaker:
    """Open since second 0, for 30."""
    breaker = Breaker(Settings(failures=failures, open_for=Duration.of_seconds(30)))
    for _ in range(failures):
        breaker.failed(0.0)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker(Settings(failures=2, open_for=Duration.of_seconds(30)))
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.wait_s(1.0) == 0.0
    breaker.failed(2.0)
    assert breaker.state is BreakerState.OPEN
    assert breaker.wait_s(2.0) == 30.0


def test_when_its_time_is_over_it_lets_a_probe_through() -> None:
    breaker = broken()
    assert breaker.wait_s(29.0) == 1.0
    assert breaker.wait_s(30.0) == 0.0
    assert breaker.state is BreakerState.HALF_OPEN


def test_a_probe_that_fails_opens_it_again_at_once() -> None:
    breaker = broken()
    breaker.wait_s(30.0)
    breaker.failed(31.0)
    assert breaker.wait_s(31.0) == 30.0
    assert breaker.failures == 4


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = broken()
    breaker.wait_s(30.0)
    breaker.succeeded()
    assert breaker.state is BreakerState.CLOSED
    breaker.failed(32.0)
    assert breaker.wait_s(32.0) == 0.0
