"""An alarm rings at the time set last, however often it is set, and with few timers."""

from __future__ import annotations

import asyncio
import math

from kscheduler.client.alarm import Alarm
from kscheduler.simulator.virtual_time import run_virtual


class Bell:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.rang: list[float] = []
        self.alarm = Alarm(self.loop, lambda: self.rang.append(self.loop.time()))


def test_it_rings_once_at_the_time_set_last() -> None:
    async def main() -> list[float]:
        bell = Bell()
        for second in range(10):
            bell.alarm.set(second + 30.0)
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        return bell.rang

    assert run_virtual(main()) == [39.0]


def test_an_earlier_time_than_before_is_kept() -> None:
    async def main() -> list[float]:
        bell = Bell()
        bell.alarm.set(30.0)
        bell.alarm.set(5.0)
        await asyncio.sleep(100)
        bell.alarm.set(107.0)
        await asyncio.sleep(100)
        return bell.rang

    assert run_virtual(main()) == [5.0, 107.0]


def test_it_does_not_ring_when_it_was_put_off_for_ever_or_cancelled() -> None:
    async def main() -> list[float]:
        bell = Bell()
        bell.alarm.set(5.0)
        bell.alarm.set(math.inf)
        await asyncio.sleep(10)
        bell.alarm.set(20.0)
        bell.alarm.cancel()
        await asyncio.sleep(100)
        return bell.rang

    assert run_virtual(main()) == []


def test_a_thousand_requests_share_a_timer() -> None:
    async def main() -> int:
        bell, armed = Bell(), 0
        arm = bell.loop.call_at

        def counting(*args: object) -> object:
            nonlocal armed
            armed += 1
            return arm(*args)  # type: ignore[arg-type]

        bell.loop.call_at = counting  # type: ignore[assignment,method-assign]
        for _ in range(1_000):
            bell.alarm.set(bell.loop.time() + 30.0)
            bell.alarm.set(math.inf)
        return armed

    assert run_virtual(main()) == 1
