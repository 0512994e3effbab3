from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kscheduler.client.turns import Turns
from kscheduler.simulator.virtual_time import run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def turns_at(pauses: list[float | None], times: list[float]) -> Turns:
    """Return turns that note the time of each in `times`, return these pauses, and end after the last."""

    def turn() -> float | None:
        turns.clear()
        times.append(now())
        if len(times) == len(pauses):
            turns.end()
        return pauses[len(times) - 1]

    turns = Turns(turn)
    return turns


def test_a_turn_is_taken_at_once_and_when_the_pause_is_over() -> None:
    times: list[float] = []

    async def main() -> None:
        await turns_at([3.0, 0.0, 2.0, None], times).run()

    run_virtual(main())
    assert times == [0.0, 3.0, 3.0, 5.0]


def test_what_is_set_often_before_a_turn_asks_for_one() -> None:
    times: list[float] = []

    async def main() -> None:
        turns = turns_at([None, None, None], times)
        for when in (1.0, 1.0, 1.0, 2.0):
            asyncio.get_running_loop().call_at(when, turns.set)
        await turns.run()

    run_virtual(main())
    assert times == [0.0, 1.0, 2.0]


def test_a_turn_that_was_asked_for_earlier_replaces_the_one_after_the_pause() -> None:
    times: list[float] = []

    async def main() -> None:
        turns = turns_at([10.0, 10.0, 10.0], times)
        asyncio.get_running_loop().call_at(4.0, turns.set)
        await turns.run()

    run_virtual(main())
    assert times == [0.0, 4.0, 14.0]


def test_what_is_set_during_a_turn_asks_for_no_other_one() -> None:
    times: list[float] = []

    def turn() -> float | None:
        times.append(now())
        turns.set()
        if len(times) == 2:
            turns.end()
        return 5.0

    turns = Turns(turn)
    run_virtual(turns.run())
    assert times == [0.0, 5.0]


def test_what_is_set_before_turns_are_taken_is_remembered() -> None:
    seen: list[bool] = []

    def turn() -> float | None:
        seen.append(turns.is_set)
        turns.end()
        return None

    turns = Turns(turn)
    turns.set()
    run_virtual(turns.run())
    assert seen == [True]


def test_an_error_in_a_turn_ends_the_turns() -> None:
    def turn() -> float | None:
        if now() == 1.0:
            raise ValueError("broken")
        return 1.0

    with pytest.raises(ValueError, match="broken"):
        run_virtual(Turns(turn).run())


@pytest.mark.parametrize("wake", [lambda turns: turns.set(), lambda turns: None], ids=["woken", "by its timer"])
def test_no_turn_is_taken_after_a_cancellation_and_turns_can_be_taken_again(wake: Callable[[Turns], None]) -> None:
    times: list[float] = []

    async def main() -> None:
        turns = turns_at([1.0, 1.0, None], times)
        first = asyncio.ensure_future(turns.run())
        await asyncio.sleep(0)
        wake(turns)
        first.cancel()
        await asyncio.sleep(5.0)
        assert times == [0.0]
        await turns.run()

    run_virtual(main())
    assert times == [0.0, 5.0, 6.0]
