"""A full cache drops the answer that was not used for longest."""

from __future__ import annotations

import asyncio

from kscheduler.serving.answer_cache import AnswerCache
from tests.support.clocks import ManualClock


async def test_a_new_answer_replaces_the_one_not_used_for_longest() -> None:
    cache: AnswerCache[str] = AnswerCache(ManualClock(), entries=2)
    slots, asked = asyncio.Semaphore(1), []

    async def answer(key: str) -> str:
        async def ask() -> str:
            asked.append(key)
            return key.upper()

        return await cache.answer(key, slots, ask, lambda _: 10.0)

    for key in ("a", "b", "a", "c", "a", "b"):
        assert await answer(key) == key.upper()
    assert asked == ["a", "b", "c", "b"]
    assert len(cache) == 2


async def test_an_answer_is_known_until_it_expires() -> None:
    clock = ManualClock()
    cache: AnswerCache[bool] = AnswerCache(clock)

    async def no() -> bool:
        return False

    assert cache.known("key") is None
    await cache.answer("key", asyncio.Semaphore(1), no, lambda _: 5.0)
    assert cache.known("key") is False
    clock.advance(5.0)
    assert cache.known("key") is None


async def test_requests_that_wait_for_one_another_ask_once() -> None:
    cache: AnswerCache[int] = AnswerCache(ManualClock())
    slots, asked = asyncio.Semaphore(1), 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return asked

    answers = await asyncio.gather(*(cache.answer("key", slots, ask, lambda _: 10.0) for _ in range(3)))
    assert answers == [1, 1, 1]
