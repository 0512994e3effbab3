from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kscheduler.client.ratelimit import Priority, RateLimiter
from kscheduler.simulator.virtual_time import LoopClock, run_virtual


def simulate(qps: float, burst: int, scenario: Callable[[RateLimiter], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(RateLimiter(qps, burst, LoopClock(asyncio.get_running_loop())))

    run_virtual(main())


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_burst_is_free_and_the_rest_comes_at_qps() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        times = []
        for _ in range(8):
            await limiter.acquire()
            times.append(now())
        assert times == pytest.approx([0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4])

    simulate(10, 4, scenario)


def test_unused_time_refills_no_more_than_the_burst() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        await asyncio.sleep(100)
        assert [limiter.try_acquire() for _ in range(4)] == [True, True, True, False]

    simulate(10, 3, scenario)


def test_several_tokens_are_taken_together_or_none_and_can_be_put_back() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert not limiter.try_acquire_many(4)
        assert limiter.try_acquire_many(2)
        assert not limiter.try_acquire_many(2)
        limiter.put_back(1)
        assert limiter.try_acquire_many(2)
        waiting = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        assert not limiter.try_acquire_many(1)  # before the one that waits
        await waiting

    simulate(10, 3, scenario)


def test_without_a_limit_any_number_of_tokens_can_be_taken() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert limiter.try_acquire_many(1_000)

    simulate(-1, 1, scenario)


def test_bindings_overtake_status_patches() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        served: list[str] = []

        async def want(name: str, priority: Priority) -> None:
            await limiter.acquire(priority)
            served.append(name)

        await limiter.acquire()
        tasks = [asyncio.ensure_future(want(f"status {i}", Priority.STATUS)) for i in range(3)]
        await asyncio.sleep(0.15)
        tasks += [asyncio.ensure_future(want(f"bind {i}", Priority.BIND)) for i in range(2)]
        await asyncio.gather(*tasks)
        assert served == ["status 0", "bind 0", "bind 1", "status 1", "status 2"]

    simulate(10, 1, scenario)


def test_nobody_slips_past_those_who_wait() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        await limiter.acquire()
        waiter = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0.05)
        assert not limiter.try_acquire()
        assert await waiter == pytest.approx(0.1)

    simulate(10, 1, scenario)


def test_who_gives_up_leaves_its_turn_to_the_next() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        await limiter.acquire()
        first, second = asyncio.ensure_future(limiter.acquire()), asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0.05)
        first.cancel()
        await second
        assert now() == pytest.approx(0.1)
        assert limiter.waiting == 0

    simulate(10, 1, scenario)


def test_a_token_that_comes_with_a_cancellation_is_not_lost() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(0.1, first.cancel)  # the same instant as its turn
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(0)
        assert now() == pytest.approx(0.1)
        await limiter.acquire()
        assert now() < 0.25

    simulate(10, 1, scenario)


@pytest.mark.parametrize(("qps", "burst", "expected"), [(-1, 1, 1000), (0, 0, 10)])
def test_the_special_values_are_those_of_client_go(qps: float, burst: int, expected: int) -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert sum(limiter.try_acquire() for _ in range(1000)) == expected

    simulate(qps, burst, scenario)
