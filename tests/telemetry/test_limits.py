from __future__ import annotations

import asyncio

import pytest

from kscheduler.telemetry.limits import BASE_BYTES, BASE_ELEMENTS, MOST_BYTES, AnswerLimits, sliced
from kscheduler.telemetry.source import TOO_MANY, Reading


def test_limits_grow_with_the_cluster_up_to_a_bound() -> None:
    assert AnswerLimits(lambda: 0).bytes == BASE_BYTES
    assert AnswerLimits(lambda: 5_000).bytes > 5_000 * 1_000
    assert AnswerLimits(lambda: 10_000_000).bytes == MOST_BYTES
    assert AnswerLimits(lambda: 100).elements == BASE_ELEMENTS + 200


def _read(count: int) -> Reading:
    """Build a reading from so many nodes in an empty cluster."""
    builder = asyncio.run(AnswerLimits(lambda: 0).build(list(range(count)), lambda i, b: b.add(f"n{i}", 1.0)))
    return builder.reading()


def test_what_is_too_much_is_refused_and_the_first_are_kept() -> None:
    reading = _read(BASE_ELEMENTS + 5)
    assert list(reading.samples) == [f"n{i}" for i in range(BASE_ELEMENTS)]
    assert reading.refused == {TOO_MANY: 5}


def test_an_honest_answer_is_kept_whole() -> None:
    reading = _read(BASE_ELEMENTS)
    assert len(reading.samples) == BASE_ELEMENTS
    assert not reading.refused


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
