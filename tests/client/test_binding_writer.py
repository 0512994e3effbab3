from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.binding_writer import BindingWriter
from kscheduler.client.protocol import Binding
from kscheduler.client.ratelimit import TOGETHER_S, RateLimiter
from kscheduler.client.request_observer import NoObserver
from kscheduler.client.slots import Slots
from kscheduler.errors import APIError, NotLeading
from kscheduler.simulator.virtual_time import LoopClock, run_virtual

ANSWER_S = 0.001


class Request:
    """A binding to write; `answers` is shared by all."""

    def __init__(self, number: int, answers: list[APIError | None]) -> None:
        self.binding = Binding("ns", f"p{number}", f"u{number}", "n")
        self.is_allowed = True
        self.on_answer = answers.append

    def may_write(self) -> bool:
        return self.is_allowed

    def may_give_up(self, give_up: object) -> None:
        raise AssertionError("nothing is overdue")

    def on_overdue(self) -> None:
        raise AssertionError("nothing is overdue")


class Waits(NoObserver):
    """Keeps how long requests have waited for the rate limit, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def observe_rate_limiter(self, verb: str, host: str, duration_s: float) -> None:
        assert verb == "POST"
        self.seconds.append(duration_s)


class World:
    """A writer whose requests are answered after ANSWER_S, and when they were sent."""

    host = "apiserver"
    is_direct = True
    fresh_until = float("inf")

    def __init__(self, qps: float, burst: int) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.credentials = self
        self.observer = Waits()
        self.sent_at_s: list[float] = []
        self.answers: list[APIError | None] = []
        limit = AdaptiveLimit(100)
        limit.value = 100
        transport: Any = self
        limiter = RateLimiter(qps, burst, self.clock)
        self.writer = BindingWriter(transport, limiter, Slots(limit), self.clock, accept="", timeout_s=1.0)

    def send(self, sent: Any, *request: object) -> None:
        self.sent_at_s.append(self.clock.now())

        def answer() -> None:
            sent.slots.ended(sent.slot, None)
            sent.on_answer(None)

        asyncio.get_running_loop().call_later(ANSWER_S, answer)

    def write(self, count: int) -> list[Request]:
        requests = [Request(number, self.answers) for number in range(count)]
        for request in requests:
            assert self.writer.write(request)
        return requests


def test_bindings_beyond_the_burst_go_in_groups_at_the_rate_of_qps() -> None:
    async def main() -> None:
        world = World(1000, 20)
        world.write(45)
        await asyncio.sleep(1)
        expected = [0.0] * 20 + [0.001] + [0.001 + TOGETHER_S] * 10 + [0.001 + 2 * TOGETHER_S] * 10 + [0.025] * 4
        assert world.sent_at_s == pytest.approx(expected, abs=1e-6)
        assert world.answers == [None] * 45
        assert world.observer.seconds == pytest.approx(expected[20:], abs=1e-6)

    run_virtual(main())


def test_bindings_that_come_while_others_wait_count_only_their_own_wait() -> None:
    async def main() -> None:
        world = World(10, 1)
        world.write(3)
        await asyncio.sleep(0.15)
        world.write(1)
        await asyncio.sleep(1)
        assert world.sent_at_s == pytest.approx([0.0, 0.1, 0.2, 0.3])
        assert world.observer.seconds == pytest.approx([0.1, 0.2, 0.15])

    run_virtual(main())


def test_bindings_that_must_not_be_written_any_more_are_refused_and_their_tokens_kept() -> None:
    async def main() -> None:
        world = World(10, 1)
        for request in world.write(4)[1:]:
            request.is_allowed = False
        await asyncio.sleep(0.35)
        assert len(world.sent_at_s) == 1
        assert [type(answer) for answer in world.answers] == [type(None), NotLeading, NotLeading, NotLeading]
        world.write(2)
        await asyncio.sleep(0)
        assert world.sent_at_s == pytest.approx([0.0, 0.35, 0.35])

    run_virtual(main())
