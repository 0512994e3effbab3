"""Binding cycles in flight, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from kscheduler.binding_tasks import BindingTasks
from kscheduler.simulator.virtual_time import run_virtual


class Bench:
    def __init__(self, limit: int = 2) -> None:
        self.changes = 0
        self.ended: list[str] = []
        self.tasks = BindingTasks(limit, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def has_room(self) -> bool:
        """A call, so that type checkers do not remember the last answer."""
        return self.tasks.has_room

    async def bind(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.ended.append(name)


def test_there_is_room_up_to_the_limit_and_again_when_one_ends() -> None:
    async def scenario() -> None:
        bench = Bench(limit=2)
        bench.tasks.start(bench.bind("a", 1))
        assert bench.has_room()
        bench.tasks.start(bench.bind("b", 2))
        assert not bench.has_room()
        await asyncio.sleep(1.5)
        assert bench.has_room()
        assert (len(bench.tasks), bench.changes) == (1, 1)
        await bench.tasks.drain(10)

    run_virtual(scenario())


def test_draining_waits_for_all_at_most_so_long_and_says_how_many_are_left() -> None:
    async def scenario() -> None:
        bench = Bench(limit=9)
        assert await bench.tasks.drain(1) == 0
        for name, seconds in (("a", 1), ("b", 2), ("c", 60)):
            bench.tasks.start(bench.bind(name, seconds))
        assert await bench.tasks.drain(5) == 1
        assert bench.ended == ["a", "b"]
        await bench.tasks.cancel()

    run_virtual(scenario())


def test_cancelling_stops_all_at_once_and_waits_until_they_have_stopped() -> None:
    async def scenario() -> None:
        bench = Bench(limit=9)
        bench.tasks.start(bench.bind("a", 1))
        bench.tasks.start(bench.bind("b", 1))
        await asyncio.sleep(0)
        await bench.tasks.cancel()
        assert (len(bench.tasks), bench.ended) == (0, [])
        assert asyncio.get_running_loop().time() == 0

    run_virtual(scenario())


def test_a_binding_that_raises_frees_its_place_and_is_reported() -> None:
    async def scenario() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        bench = Bench(limit=1)

        async def fail() -> None:
            raise RuntimeError("a bug")

        bench.tasks.start(fail())
        await asyncio.sleep(0.1)
        assert bench.tasks.has_room
        assert bench.changes == 1
        assert [str(context["exception"]) for context in reported] == ["a bug"]

    run_virtual(scenario())
