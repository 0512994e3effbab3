"""One source, asked again and again in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.config.duration import Duration
from kscheduler.config.metric_policy import Metric, Source
from kscheduler.simulator.virtual_time import LoopClock, run_virtual
from kscheduler.telemetry.breaker import BreakerState
from kscheduler.telemetry.poller import Poller
from kscheduler.telemetry.source import Readings
from tests.telemetry.fakes import FakeSource, measurements


class Listener:
    def __init__(self, *metrics: str) -> None:
        self.metrics = [Metric(name=name, source="fake") for name in metrics]
        self.answers: list[float] = []  # when
        self.failures: list[int] = []
        self.raises = False

    def wanted(self, source: str) -> Sequence[Metric]:
        return self.metrics

    async def answered(self, source: str, readings: Readings) -> None:
        if self.raises:
            raise ZeroDivisionError
        self.answers.append(asyncio.get_running_loop().time())

    def failed(self, source: str, failures: int) -> None:
        self.failures.append(failures)


Test = Callable[[FakeSource, Listener, Poller], Awaitable[None]]


def polling(*metrics: str, timeout_s: float = 5.0) -> Callable[[Test], Callable[[], None]]:
    """Beside a poller of a source with an interval of 10 s that knows these metrics."""

    def decorate(test: Test) -> Callable[[], None]:
        async def main() -> None:
            source, listener = FakeSource(), Listener(*metrics)
            source.values = {name: {"a": 1.0} for name in metrics}
            config = Source(name="fake", interval=Duration.of_seconds(10), timeout=Duration.of_seconds(timeout_s))
            clock = LoopClock(asyncio.get_running_loop())
            poller = Poller(config, source, listener, clock, random.Random(1), measurements())
            running = asyncio.ensure_future(poller.run())
            try:
                await test(source, listener, poller)
            finally:
                await cancel_and_wait(running)

        return lambda: run_virtual(main())

    return decorate


@polling("x")
async def test_it_asks_at_once_and_then_about_once_an_interval(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    await asyncio.sleep(100)
    assert listener.answers[0] == 0.0
    steps = [after - before for before, after in zip(listener.answers, listener.answers[1:], strict=False)]
    assert all(9.0 <= step <= 11.0 for step in steps)
    assert len(set(steps)) > 1  # not in step with others


@polling("x", timeout_s=25.0)
async def test_questions_never_overlap(source: FakeSource, listener: Listener, poller: Poller) -> None:
    source.hangs = True
    await asyncio.sleep(70)
    assert len(source.asked) == 3  # at 0, 25 and 50 s
    assert listener.failures == [1, 2]


@polling()
async def test_a_source_nobody_wants_anything_of_is_not_asked(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    await asyncio.sleep(30)
    assert not source.asked
    assert poller.first_answer.is_set()


@polling("x", "y")
async def test_a_part_of_the_answer_is_an_answer(source: FakeSource, listener: Listener, poller: Poller) -> None:
    del source.values["x"]
    await asyncio.sleep(30)
    assert poller.breaker.state is BreakerState.CLOSED
    assert not listener.failures


@polling("x", "y", "z")
async def test_a_half_open_breaker_asks_for_one_metric_before_it_asks_for_all(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    source.fail()
    await asyncio.sleep(45)
    source.failure = None
    source.asked.clear()
    await asyncio.sleep(15)
    assert [len(asked) for asked in source.asked[:2]] == [1, 3]
    assert poller.breaker.state is BreakerState.CLOSED


@polling("x", "y", "z")
async def test_a_metric_that_is_gone_for_good_does_not_keep_the_others_away(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    source.fail()
    await asyncio.sleep(45)
    source.failure = None
    source.values = {"z": {"a": 1.0}}
    listener.answers.clear()
    await asyncio.sleep(100)
    assert listener.answers


@polling("x")
async def test_an_answer_that_cannot_be_taken_in_ends_nothing(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    asked = len(source.asked)
    listener.raises = True
    await asyncio.sleep(60)
    assert len(source.asked) >= asked + 5
    assert poller.first_answer.is_set()


@polling("x")
async def test_what_it_says_of_the_last_error_is_true(source: FakeSource, listener: Listener, poller: Poller) -> None:
    source.fail("connection refused")
    await asyncio.sleep(15)
    assert poller.last_error == "connection refused"
    source.failure = None
    await asyncio.sleep(15)
    assert poller.last_error == ""


def test_each_other_reason_of_a_source_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @polling("x")
    async def scenario(source: FakeSource, listener: Listener, poller: Poller) -> None:
        source.fail("HTTP status 401")
        await asyncio.sleep(120)
        source.fail("a bad query")
        await asyncio.sleep(120)
        assert poller.describe().endswith("a bad query")

    scenario()
    failures = [record for record in caplog.records if "fails" in record.message]
    assert [(record.message, vars(record)["err"]) for record in failures] == [
        ("metric source fails", "HTTP status 401"),
        ("metric source fails for another reason", "a bad query"),
    ]


@polling("x", "y", "z", "u")
async def test_metrics_that_all_fail_in_their_own_way_are_named(
    source: FakeSource, listener: Listener, poller: Poller
) -> None:
    source.values = {}
    source.reasons = {"x": "a bad query", "y": "a bad query", "z": "a matrix", "u": "a bad query"}
    await asyncio.sleep(15)
    assert poller.last_error == "x: a bad query; y: a bad query; z: a matrix; …"
