"""Slots on virtual time: who gets one, who waits, and for how long a plea to slow down is obeyed."""

from __future__ import annotations

import asyncio

import pytest

from kscheduler.client.adaptive_limit import AdaptiveLimit
from kscheduler.client.ratelimit import Priority
from kscheduler.client.slots import LONGEST_PAUSE_S, Slots
from kscheduler.errors import APIError, Conflict, TooManyRequests
from kscheduler.simulator.virtual_time import run_virtual


class Bench:
    def __init__(self, ceiling: int = 2) -> None:
        self.slots = Slots(AdaptiveLimit(ceiling))
        self.served: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    def want(self, name: str, priority: Priority, seconds: float = 1.0) -> asyncio.Task[None]:
        async def work() -> None:
            async with self.slots.taken(priority):
                self.served.append(name)
                await asyncio.sleep(seconds)

        self._tasks.append(asyncio.ensure_future(work()))
        return self._tasks[-1]

    async def all(self) -> list[str]:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self.slots.under_way == 0
        return self.served


def test_bindings_take_all_slots_and_go_before_statuses_and_events() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.want("b1", Priority.BIND)
        bench.want("b2", Priority.BIND)
        bench.want("s1", Priority.STATUS, 1.1)
        bench.want("s2", Priority.STATUS)
        bench.want("e1", Priority.EVENT, 1.2)
        bench.want("e2", Priority.EVENT)
        bench.want("b3", Priority.BIND)
        # One status and one Event are always let through.
        await asyncio.sleep(0.5)
        assert bench.served == ["b1", "b2", "s1", "e1"]
        assert await bench.all() == ["b1", "b2", "s1", "e1", "b3", "s2", "e2"]

    run_virtual(scenario())


def test_others_do_not_take_what_bindings_may_have() -> None:
    async def scenario() -> None:
        bench = Bench()
        for number in range(4):
            bench.want(f"s{number}", Priority.STATUS)
        await asyncio.sleep(0.5)
        bench.want("b1", Priority.BIND)
        bench.want("b2", Priority.BIND)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.served == ["s0", "s1", "b1", "b2"]
        await bench.all()

    run_virtual(scenario())


def test_one_that_gives_up_waiting_holds_nothing() -> None:
    async def scenario() -> None:
        bench = Bench(1)
        bench.want("b1", Priority.BIND)
        given_up = bench.want("b2", Priority.BIND)
        bench.want("b3", Priority.BIND)
        await asyncio.sleep(0.5)
        given_up.cancel()
        assert await bench.all() == ["b1", "b3"]

    run_virtual(scenario())


def test_a_slot_that_comes_together_with_the_cancellation_is_given_back() -> None:
    async def scenario() -> None:
        bench = Bench(1)
        assert bench.slots.try_take(Priority.BIND)
        given_up = bench.want("b2", Priority.BIND)
        await asyncio.sleep(0)
        bench.slots.give_back(Priority.BIND)
        given_up.cancel()
        assert await bench.all() == []

    run_virtual(scenario())


@pytest.mark.parametrize(("asked_s", "paused_s"), [(3.0, 3.0), (3600.0, LONGEST_PAUSE_S)])
def test_nothing_is_sent_until_the_apiserver_wants_to_be_asked_again(asked_s: float, paused_s: float) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.slots.learn(TooManyRequests("slow down", status=429, retry_after_s=asked_s))
        assert bench.slots.is_paused
        assert not bench.slots.try_take(Priority.BIND)
        bench.want("b", Priority.BIND, 0)
        bench.want("e", Priority.EVENT, 0)
        assert await bench.all() == ["b", "e"]
        assert asyncio.get_running_loop().time() == paused_s
        assert not bench.slots.is_paused

    run_virtual(scenario())


def test_what_a_block_meets_is_learnt_from() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(32))
        for error, limit in (
            (Conflict("bound already", status=409), 8),
            (APIError("no etcd", status=500), 4),
        ):
            with pytest.raises(APIError):
                async with slots.taken(Priority.STATUS):
                    raise error
            assert slots.limit.value == limit
            assert not slots.is_paused

    run_virtual(scenario())


def test_the_limit_grows_with_awaited_bindings_too() -> None:
    async def scenario() -> None:
        bench = Bench(100)
        for number in range(2000):
            bench.want(f"b{number}", Priority.BIND, 0.005)
        await bench.all()
        assert bench.slots.limit.value == 100

    run_virtual(scenario())


def test_a_slot_that_is_free_again_is_told_of() -> None:
    async def scenario() -> None:
        slots = Slots(AdaptiveLimit(1))
        told: list[bool] = []
        slots.on_free = lambda: told.append(slots.try_take(Priority.BIND))
        assert slots.try_take(Priority.BIND)
        slots.give_back(Priority.BIND)
        assert told == [True]
        assert not slots.try_take(Priority.BIND)

    run_virtual(scenario())
