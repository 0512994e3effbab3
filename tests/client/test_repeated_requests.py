"""Requests whose answers are overdue, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kscheduler.client.repeated_requests import RepeatedRequests
from kscheduler.errors import APIError, Forbidden, Unreachable
from kscheduler.simulator.virtual_time import LoopClock, run_virtual

NEVER_S = 60.0  # a request gives up then

Answer = tuple[float, str | APIError]  # after so many seconds


class Server:
    """Answers requests in turn."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked_at: list[tuple[float, bool]] = []
        self.open = 0

    async def ask(self, is_repeat: bool) -> str:
        self.asked_at.append((asyncio.get_running_loop().time(), is_repeat))
        after_s, answer = self.answers.pop(0)
        self.open += 1
        try:
            await asyncio.sleep(after_s)
        finally:
            self.open -= 1
        if isinstance(answer, APIError):
            raise answer
        return answer


def play(scenario: Callable[[RepeatedRequests], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scenario(RepeatedRequests(LoopClock(asyncio.get_running_loop())))

    run_virtual(main())


HUNG: Answer = (NEVER_S, Unreachable("timed out"))


def test_an_answer_in_time_is_asked_for_once() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        server = Server((1.9, "a"))
        assert await repeated.answer("pods", server.ask) == "a"
        assert server.asked_at == [(0.0, False)]

    play(scenario)


def test_a_request_that_hangs_is_repeated_after_2_6_and_14_seconds() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        server = Server(HUNG, HUNG, HUNG, (1.0, "fourth"))
        assert await repeated.answer("pods", server.ask) == "fourth"
        assert server.asked_at == [(0.0, False), (2.0, True), (6.0, True), (14.0, True)]
        assert server.open == 0  # those that hang were given up

    play(scenario)


def test_the_first_answer_counts_also_a_late_one() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        server = Server((2.5, "late"), (1.0, "repeat"))
        assert await repeated.answer("pods", server.ask) == "late"

    play(scenario)


def test_what_an_answer_says_counts_and_what_prevents_an_answer_does_not() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        with pytest.raises(Forbidden):
            await repeated.answer("pods", Server(HUNG, (0.5, Forbidden("no", status=403))).ask)
        assert await repeated.answer("pods", Server((5.0, "late"), (0.5, Unreachable("reset"))).ask) == "late"
        with pytest.raises(Unreachable, match="refused"):
            await repeated.answer("pods", Server((0.0, Unreachable("refused"))).ask)
        with pytest.raises(Unreachable):
            await repeated.answer("pods", Server(HUNG, HUNG, HUNG, HUNG).ask)

    play(scenario)


def test_a_server_that_is_known_to_be_slow_is_given_its_time() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        await repeated.answer("pods", Server((5.0, "late"), HUNG, HUNG).ask)
        server = Server((19.0, "a"))
        assert await repeated.answer("pods", server.ask) == "a"
        other = Server(HUNG, (0.0, "b"))
        assert await repeated.answer("nodes", other.ask) == "b"
        assert len(other.asked_at) == 2

    play(scenario)


def test_an_answer_that_comes_although_it_was_given_up_can_be_closed() -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        asked: list[bool] = []

        async def ask(is_repeat: bool) -> str:
            asked.append(is_repeat)
            if is_repeat:
                return "second"
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "first"  # a connection was made at that moment
            raise AssertionError("nothing ends the wait but a cancellation")

        given_up: list[str] = []
        assert await repeated.answer("watch", ask, overdue_s=1.0, give_up=given_up.append) == "second"
        assert given_up == ["first"]
        assert asked == [False, True]

    play(scenario)


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("hung", [0, 1])
def test_no_answer_is_lost_whenever_the_read_is_cancelled(turns: int, hung: int) -> None:
    async def scenario(repeated: RepeatedRequests) -> None:
        asked, begun = 0, asyncio.Event()
        opened: list[str] = []
        given_up: list[str] = []

        async def ask(is_repeat: bool) -> str:
            nonlocal asked
            asked += 1
            if asked <= hung:
                await asyncio.Event().wait()
            begun.set()
            await asyncio.sleep(0)
            opened.append("stream")
            return "stream"

        read = asyncio.ensure_future(repeated.answer("watch", ask, overdue_s=1.0, give_up=given_up.append))
        await begun.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        read.cancel()
        await asyncio.wait([read])
        await asyncio.sleep(0)
        assert given_up + ([] if read.cancelled() else [read.result()]) == opened

    play(scenario)
