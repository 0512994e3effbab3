"""The loop jumps, keeps order, refuses threads, and names who waits when nothing can happen."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

from kscheduler._fast import MANY_TIMERS
from kscheduler.simulator.virtual_time import LoopClock, TimeStandsStill, VirtualDeadlock, run_virtual


def test_a_year_of_sleep_ends_on_the_second() -> None:
    async def main() -> float:
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time() - started

    assert run_virtual(main()) == 365 * 86_400


def test_timers_fire_in_time_order_at_the_exact_time() -> None:
    fired: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 12_345_678.9), sleeper("early", 0.1), sleeper("middle", 2.5))

    run_virtual(main())
    assert fired == [("early", 0.1), ("middle", 2.5), ("late", 12_345_678.9)]


def test_a_sleep_of_no_number_of_seconds_is_an_error_of_its_caller_and_time_goes_on() -> None:
    async def main() -> float:
        background = asyncio.create_task(asyncio.sleep(3))
        with pytest.raises(ValueError, match=r"(?i)nan"):  # asyncio refuses it itself since CPython 3.13
            await asyncio.sleep(math.nan)
        await background
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3.0


def test_everything_ready_runs_before_time_moves() -> None:
    async def main() -> float:
        for _ in range(1_000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtual(main(), start=7.0) == 7.0


def test_a_program_that_waits_for_nobody_fails_with_the_tasks_that_wait_and_where() -> None:
    async def wait_for_godot() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.create_task(wait_for_godot(), name="vladimir")

    with pytest.raises(
        VirtualDeadlock, match=r"nothing can happen.*vladimir \(wait_for_godot at test_virtual_time.py:\d+"
    ):
        run_virtual(main())


def test_tasks_that_keep_each_other_ready_forever_are_stopped() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - the very mistake to be found
            await asyncio.sleep(0)

    with pytest.raises(TimeStandsStill, match="100 rounds without progress"):
        run_virtual(main(), max_rounds_per_instant=100)


def test_tasks_left_behind_are_cancelled_and_may_clean_up() -> None:
    cleaned: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(3)
            cleaned.append("yes")

    async def main() -> str:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert not task.done()
        return "done"

    assert run_virtual(main()) == "done"
    assert cleaned == ["yes"]


def test_an_error_of_the_program_is_the_error_of_the_run() -> None:
    async def main() -> None:
        await asyncio.sleep(5)
        raise ValueError("from within")

    with pytest.raises(ValueError, match="from within"):
        run_virtual(main())


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(RuntimeError, match="no threads in virtual time"):
        run_virtual(main())


def test_wait_for_times_out_in_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(loop.create_future(), 30)
        return loop.time()

    assert run_virtual(main()) == 30


def test_the_clock_is_the_loops_time_and_the_wall_is_the_epoch_plus_it() -> None:
    async def main() -> tuple[float, float]:
        clock = LoopClock(asyncio.get_running_loop(), epoch=1_000.0)
        await asyncio.sleep(2.5)
        return clock.now(), clock.wall()

    assert run_virtual(main()) == (2.5, 1_002.5)


def test_timers_of_one_time_fire_in_the_order_in_which_they_were_set() -> None:
    fired: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(100):
            loop.call_at(5.0, fired.append, number)
        await asyncio.sleep(5.0)

    run_virtual(main())
    assert fired == list(range(100))


def test_cancelled_timers_neither_fire_nor_pile_up() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        for _ in range(20 * MANY_TIMERS):
            loop.call_later(1e6, pytest.fail, "a cancelled timer fired").cancel()
        kept = len(loop._calls)  # type: ignore[attr-defined]
        await asyncio.sleep(2e6)
        return kept

    assert run_virtual(main()) <= 2 * MANY_TIMERS


def test_an_error_of_a_callback_goes_to_the_loops_handler_and_stops_nothing() -> None:
    async def main() -> list[str]:
        loop, seen = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: seen.append(type(context["exception"]).__name__))
        loop.call_soon(divmod, 1, 0)
        await asyncio.sleep(1)
        return seen

    assert run_virtual(main()) == ["ZeroDivisionError"]
