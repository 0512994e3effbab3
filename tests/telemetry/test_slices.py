from __future__ import annotations

import asyncio

import pytest

from kscheduler.telemetry.slices import sliced


@pytest.mark.parametrize(
    ("count", "slices"), [(0, []), (1, [[0]]), (2, [[0, 1]]), (5, [[0, 1], [2, 3], [4]]), (4, [[0, 1], [2, 3]])]
)
async def test_items_come_in_their_order_so_many_at_a_time(count: int, slices: list[list[int]]) -> None:
    assert [some async for some in sliced(range(count), 2)] == slices


async def test_others_run_between_two_slices() -> None:
    turns: list[tuple[str, int]] = []

    async def take(name: str) -> None:
        async for first, _ in sliced(range(4), 2):
            turns.insert(len(turns), (name, first))  # at once, not when all have come

    await asyncio.gather(take("a"), take("b"))
    assert turns == [("a", 0), ("b", 0), ("a", 2), ("b", 2)]
