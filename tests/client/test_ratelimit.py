from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.ratelimit import TOGETHER_S, Priority, RateLimiter, WaitingRequests
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
        assert limiter.try_acquire_some(2) == 0
        limiter.put_back(2)
        assert [limiter.try_acquire_some(1), limiter.try_acquire_some(5)] == [1, 1]
        waiting = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        limiter.put_back(1)
        assert not limiter.try_acquire_many(1)  # before the one that waits
        assert limiter.try_acquire_some(1) == 0
        await waiting

    simulate(10, 3, scenario)


def test_without_a_limit_any_number_of_tokens_can_be_taken() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert limiter.try_acquire_many(1_000)
        assert limiter.try_acquire_some(1_000) == 1_000

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
        await waiter
        assert now() == pytest.approx(0.1)

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


@pytest.mark.parametrize("later", [0, 1], ids=["with the token", "when it has been passed on"])
def test_a_token_that_comes_with_a_cancellation_is_not_lost(later: int) -> None:
    async def scenario(limiter: RateLimiter) -> None:
        await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        # The same instant as its turn, and so many rounds of the loop later.
        loop.call_at(0.1, first.cancel if not later else lambda: loop.call_soon(first.cancel))
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(0)
        assert now() == pytest.approx(0.1)
        assert first.cancelled()
        assert limiter.try_acquire()

    simulate(10, 1, scenario)


@pytest.mark.parametrize(("qps", "burst", "expected"), [(-1, 1, 1000), (0, 0, 10)])
def test_the_special_values_are_those_of_client_go(qps: float, burst: int, expected: int) -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert sum(limiter.try_acquire() for _ in range(1000)) == expected

    simulate(qps, burst, scenario)


def test_where_tokens_come_fast_those_of_ten_milliseconds_come_together() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        came: list[tuple[float, int]] = []
        waiting = WaitingRequests(Priority.BIND, lambda count: came.append((now(), count)))
        await asyncio.sleep(0)
        assert limiter.try_acquire_many(20)
        limiter.want(waiting, 25)
        assert limiter.waiting == 25
        await asyncio.sleep(1)
        assert [count for _, count in came] == [10, 10, 5]
        assert [at for at, _ in came] == pytest.approx([TOGETHER_S, 2 * TOGETHER_S, 2.5 * TOGETHER_S])
        assert limiter.waiting == 0

    simulate(1000, 20, scenario)


def test_who_is_served_late_by_a_busy_loop_loses_no_token() -> None:
    class LateClock:
        """The loop's clock, and how much later it is by now because something has kept the loop busy."""

        def __init__(self) -> None:
            self.late_s = 0.0

        def now(self) -> float:
            return now() + self.late_s

        def wall(self) -> float:
            return self.now()

    async def main() -> None:
        clock = LateClock()
        limiter = RateLimiter(10, 1, clock)
        came: list[int] = []
        assert limiter.try_acquire()
        limiter.want(WaitingRequests(Priority.BIND, came.append), 8)
        clock.late_s = 0.5
        await asyncio.sleep(0.11)
        assert came == [6]
        await asyncio.sleep(0.2)
        assert sum(came) == 8
        assert not limiter.try_acquire_some(9) > 1

    run_virtual(main())


def test_requests_that_want_many_tokens_leave_some_to_those_that_come_after_them() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        served: list[str] = []
        many = WaitingRequests(Priority.BIND, lambda count: served.extend(["many"] * count))
        await limiter.acquire()
        limiter.want(many, 100)

        async def one() -> None:
            await limiter.acquire()
            served.append("one")

        await asyncio.sleep(0.05)
        single = asyncio.ensure_future(one())
        await asyncio.sleep(0.15)
        limiter.want(many, 100)
        await single
        assert served == ["many", "one"]

    simulate(10, 1, scenario)


def test_who_wants_some_tokens_gets_those_that_come_together_and_leaves_the_rest() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        assert limiter.try_acquire_many(8)
        assert await limiter.acquire_some(Priority.EVENT, 8) == 5
        assert now() == pytest.approx(TOGETHER_S)
        assert limiter.waiting == 0
        await asyncio.sleep(1)
        assert limiter.try_acquire()  # nobody waits any more

    simulate(500, 8, scenario)


def test_a_call_that_fails_takes_no_token_from_others() -> None:
    async def scenario(limiter: RateLimiter) -> None:
        def fail(count: int) -> None:
            raise ValueError(count)

        await limiter.acquire()
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
        limiter.want(WaitingRequests(Priority.BIND, fail), 1)
        await limiter.acquire()
        assert now() == pytest.approx(0.2)
        assert len(faults) == 1

    simulate(10, 1, scenario)


@given(
    st.integers(1, 2000),
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0, 0.3), st.sampled_from(Priority), st.integers(1, 30), st.booleans()), max_size=30),
)
def test_never_more_tokens_are_given_than_qps_and_burst_allow_and_all_that_wait_get_theirs(
    qps: int, burst: int, requests: list[tuple[float, Priority, int, bool]]
) -> None:
    async def scenario(limiter: RateLimiter) -> None:
        came: list[tuple[float, int]] = []

        async def some(delay_s: float, priority: Priority, count: int, gives_up: bool) -> None:
            await asyncio.sleep(delay_s)
            if count == 1:
                wait = asyncio.ensure_future(limiter.acquire_some(priority, 3))
                if gives_up:
                    asyncio.get_running_loop().call_later(0.01, wait.cancel)
                with contextlib.suppress(asyncio.CancelledError):
                    some_came = await wait
                    came.append((now(), some_came))
                return
            got = 0
            every = asyncio.Event()

            def take(more: int) -> None:
                nonlocal got
                got += more
                came.append((now(), more))
                if got == count:
                    every.set()

            limiter.want(WaitingRequests(priority, take), count)
            await every.wait()
            assert got == count

        await asyncio.gather(*(some(*request) for request in requests))
        assert limiter.waiting == 0
        came.sort()
        total = 0
        for at, count in came:
            total += count
            assert total <= burst + qps * at + 1e-6

    simulate(qps, burst, scenario)
