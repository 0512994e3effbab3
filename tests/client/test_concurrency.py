from __future__ import annotations

import asyncio

import pytest

from kscheduler.client.concurrency import Signal, run_together, wait_event, within
from kscheduler.errors import StoppedItself
from kscheduler.simulator.virtual_time import run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_first_failure_ends_all() -> None:
    async def main() -> None:
        ended: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append("forever")

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await run_together(forever(), fail(), forever())
        assert ended == ["forever", "forever"]
        assert now() == 1.0

    run_virtual(main())


def test_cancelling_the_group_ends_all() -> None:
    async def main() -> None:
        ended: list[int] = []

        async def forever(number: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(number)

        group = asyncio.ensure_future(run_together(forever(1), forever(2)))
        await asyncio.sleep(1)
        group.cancel()
        with pytest.raises(asyncio.CancelledError):
            await group
        assert sorted(ended) == [1, 2]

    run_virtual(main())


def test_waiting_for_an_event_has_a_limit() -> None:
    async def main() -> None:
        event = asyncio.Event()
        assert not await wait_event(event, 2)
        assert now() == 2.0
        asyncio.get_running_loop().call_later(1, event.set)
        assert await wait_event(event, 2)
        assert await wait_event(event, 0)
        assert now() == 3.0

    run_virtual(main())


def test_what_takes_too_long_is_cancelled() -> None:
    async def main() -> None:
        async def answer(delay_s: float) -> str:
            await asyncio.sleep(delay_s)
            return "done"

        assert await within(2, answer(1)) == "done"
        with pytest.raises(asyncio.TimeoutError):
            await within(2, answer(3))
        assert now() == 3.0

    run_virtual(main())


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), GeneratorExit(), BaseException("panic")])
def test_what_would_end_the_callers_task_is_an_exception_with_that_as_its_cause(raised: BaseException) -> None:
    async def main() -> None:
        async def fail() -> None:
            await asyncio.sleep(1)
            raise raised

        with pytest.raises(StoppedItself) as caught:
            await within(5, fail())
        assert type(caught.value.__cause__) is type(raised)

    run_virtual(main())


def test_a_cancellation_is_not_lost_to_a_result() -> None:
    async def main() -> None:
        async def answer() -> str:
            await asyncio.sleep(1)
            return "done"

        outer = asyncio.ensure_future(within(5, answer()))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(1.0, outer.cancel)
        with pytest.raises(asyncio.CancelledError):
            await outer

    run_virtual(main())


def test_all_who_wait_for_a_signal_go_on_and_later_ones_until_it_is_cleared() -> None:
    async def main() -> None:
        signal, went_on = Signal(), []

        async def wait(name: str) -> None:
            await signal.wait()
            went_on.append(name)

        early = [asyncio.ensure_future(wait(name)) for name in ("a", "b", "cancelled")]
        await asyncio.sleep(1)
        early[2].cancel()
        signal.set()
        await wait("late")
        await asyncio.gather(*early, return_exceptions=True)
        assert sorted(went_on) == ["a", "b", "late"]
        assert signal.is_set()
        signal.clear()
        again = asyncio.ensure_future(wait("again"))
        await asyncio.sleep(1)
        assert not again.done()
        again.cancel()

    run_virtual(main())


def test_cancelling_a_wait_with_a_limit_ends_what_is_waited_for() -> None:
    async def main() -> None:
        ended: list[float] = []

        async def forever() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(now())

        outer = asyncio.ensure_future(within(5, forever()))
        asyncio.get_running_loop().call_at(1.0, outer.cancel)
        with pytest.raises(asyncio.CancelledError):
            await outer
        assert ended == [1.0]

    run_virtual(main())


async def stubborn(until: float) -> None:
    """Goes on until then, even if it is cancelled."""
    while now() < until:
        try:
            await asyncio.sleep(until - now())
        except asyncio.CancelledError:
            continue


def test_what_ignores_its_cancellation_is_waited_for_only_as_long_as_allowed() -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await within(5, stubborn(6.0), leave_after_s=2)
        assert now() == 6.0
        with pytest.raises(asyncio.TimeoutError):
            await within(5, stubborn(1000.0), leave_after_s=2)
        assert now() == 13.0
        outer = asyncio.ensure_future(within(5, stubborn(1000.0), leave_after_s=2))
        asyncio.get_running_loop().call_at(14.0, outer.cancel)
        with pytest.raises(asyncio.CancelledError):
            await outer
        assert now() == 16.0

    run_virtual(main())
