"""When readings are taken of the scheduler: while somebody watches, seldom, and for a small share of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from kscheduler.serving.live.feed import PERIOD_S, SHARE, Feed
from kscheduler.serving.live.readings import Reading
from tests.support.world import in_virtual_time
from tests.ui.live.fixture import reading


class Reader:
    """Notes when it is asked for a reading, and of what."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.asked: list[tuple[float, frozenset[str]]] = []
        self.forgot = 0
        self.spent = 0.0
        self.failure: Exception | None = None

    def take(self, views: Collection[str]) -> Reading:
        self.asked.append((asyncio.get_running_loop().time(), frozenset(views)))
        self.spent += self.takes_s
        if self.failure is not None:
            raise self.failure
        return reading()

    def forget(self) -> None:
        self.forgot += 1

    @property
    def times(self) -> list[float]:
        return [round(at - self.asked[0][0], 3) for at, _ in self.asked]


def fed(reader: Reader, *, answers: bool = True) -> Feed:
    """A feed whose page is done with a reading at once, or never."""
    feed = Feed(reader, lambda: reader.spent, lambda _: feed.taken() if answers else None)
    return feed


@in_virtual_time
async def test_nothing_is_read_while_nobody_watches() -> None:
    reader = Reader()
    feed = fed(reader)
    await asyncio.sleep(100.0)
    assert reader.asked == []
    feed.watch(frozenset({"overview"}))
    await asyncio.sleep(7.0)
    feed.watch(frozenset())
    count = len(reader.asked)
    await asyncio.sleep(100.0)
    assert (count, len(reader.asked)) == (4, 4)


@in_virtual_time
async def test_a_reading_of_what_is_watched_is_taken_every_two_seconds() -> None:
    reader = Reader()
    fed(reader).watch(frozenset({"overview", "queue"}))
    await asyncio.sleep(4.5)
    assert reader.times == [0.0, PERIOD_S, 2 * PERIOD_S]
    assert {views for _, views in reader.asked} == {frozenset({"overview", "queue"})}


@in_virtual_time
async def test_readings_that_take_long_are_taken_less_often() -> None:
    reader = Reader(takes_s=0.02)
    fed(reader).watch(frozenset({"queue"}))
    await asyncio.sleep(40.0)
    assert reader.spent / 40.0 <= SHARE * 1.1


@in_virtual_time
async def test_a_new_view_is_read_soon_but_not_more_often_than_its_share() -> None:
    reader = Reader(takes_s=0.001)
    feed = fed(reader)
    feed.watch(frozenset({"overview"}))
    await asyncio.sleep(0.5)
    feed.watch(frozenset({"overview", "nodes"}))
    await asyncio.sleep(0.1)
    assert len(reader.asked) == 2
    for at in range(1_000):
        feed.watch(frozenset({"overview", f"view-{at}"}))
        await asyncio.sleep(0.01)
    assert reader.spent / 10.0 <= SHARE * 1.1


@in_virtual_time
async def test_there_is_no_reading_while_the_page_is_busy_with_one() -> None:
    reader = Reader()
    feed = fed(reader, answers=False)
    feed.watch(frozenset({"queue"}))
    await asyncio.sleep(100.0)
    assert len(reader.asked) == 1
    feed.taken()
    await asyncio.sleep(0.5)
    assert len(reader.asked) == 2


@in_virtual_time
async def test_who_watches_after_a_pause_is_shown_all_nodes() -> None:
    reader = Reader()
    feed = fed(reader)
    feed.watch(frozenset({"nodes"}))
    feed.watch(frozenset({"nodes", "queue"}))
    assert reader.forgot == 1
    feed.watch(frozenset())
    feed.watch(frozenset({"nodes"}))
    assert reader.forgot == 2


def test_a_fault_is_reported_once_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reader = Reader()

    @in_virtual_time
    async def scenario() -> None:
        reader.failure = RuntimeError("broken")
        fed(reader).watch(frozenset({"queue"}))
        await asyncio.sleep(11.0)
        reader.failure = None
        await asyncio.sleep(2.0)

    scenario()
    assert len(reader.asked) == 7
    assert caplog.text.count("could not be read") == 1
