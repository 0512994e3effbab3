"""Binding cycles in flight, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kscheduler.cycle.binding_tasks import LOOK_S, BackgroundTasks, BindingTasks, PreBindSteps, QuickSteps
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status, unschedulable
from kscheduler.simulator.virtual_time import run_virtual
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_pod
from tests.support import framework_bench


class Bench:
    def __init__(self, limit: int = 2) -> None:
        self.changes = 0
        self.ended: list[str] = []
        self.tasks = BindingTasks(limit, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def has_room(self) -> bool:
        """A call, so that type checkers do not remember the last answer."""
        return self.tasks.room > 0

    async def bind(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.ended.append(name)


def has_room(tasks: BindingTasks) -> bool:
    """As above."""
    return tasks.room > 0


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


def test_those_that_wait_for_others_take_no_room() -> None:
    async def scenario() -> None:
        began: list[str] = []
        steps = PreBindSteps(lambda: began.append("step"))
        tasks = BindingTasks(1, lambda: None, steps.__len__)

        async def never() -> Status | None:
            await asyncio.sleep(60)
            return None

        async def bind() -> None:
            await steps.run("uid", never())

        tasks.start(bind())
        assert not has_room(tasks)
        await asyncio.sleep(1)
        assert (began, len(tasks), len(steps)) == (["step"], 1, 1)
        assert has_room(tasks)
        await tasks.cancel()

    run_virtual(scenario())


async def hang(steps: QuickSteps) -> None:
    with steps.step():
        await asyncio.Event().wait()


def test_steps_that_hang_take_no_room_once_they_are_overdue_and_again_when_others_would_be_too_many() -> None:
    async def scenario() -> None:
        changes: list[float] = []
        steps = QuickSteps(2, lambda: changes.append(asyncio.get_running_loop().time()))
        tasks = BindingTasks(2, lambda: None, steps.__len__)
        for _ in range(2):
            tasks.start(hang(steps))
        await asyncio.sleep(0.9)
        assert (tasks.room, changes) == (0, [])
        await asyncio.sleep(0.2)
        assert (tasks.room, changes) == (2, [1.0, 1.0])
        # As many as the limit are left out of account, no more.
        for _ in range(2):
            tasks.start(hang(steps))
        await asyncio.sleep(5)
        assert (tasks.room, len(tasks)) == (0, 4)
        await tasks.cancel()
        assert (tasks.room, len(steps)) == (2, 0)

    run_virtual(scenario())


def test_a_slow_step_counts_again_once_it_has_ended_and_what_it_raises_is_raised() -> None:
    async def scenario() -> None:
        steps = QuickSteps(2)

        async def fail() -> None:
            await asyncio.sleep(2)
            assert len(steps) == 1
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"), steps.step():
            await fail()
        assert len(steps) == 0
        with steps.step():
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)
        assert len(steps) == 0

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
        assert bench.tasks.room == 1
        assert bench.changes == 1
        assert [str(context["exception"]) for context in reported] == ["a bug"]

    run_virtual(scenario())


def test_the_report_of_a_bug_names_the_kind_of_work() -> None:
    async def scenario() -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        tasks = BackgroundTasks("a preemption", lambda: None)

        async def fail() -> None:
            raise RuntimeError("a bug")

        tasks.start(fail())
        assert await tasks.drain(1) == 0
        assert [context["message"] for context in reported] == ["a preemption raised"]

    run_virtual(scenario())


# --- PreBind ------------------------------------------------------------------------------------------------------


async def answer_after(seconds: float, status: Status | None) -> Status | None:
    await asyncio.sleep(seconds)
    return status


def test_the_answer_of_pre_bind_is_passed_on() -> None:
    async def scenario() -> None:
        steps = PreBindSteps()
        assert await steps.run("u", answer_after(1, None)) is None
        refusal = unschedulable("no")
        assert await steps.run("u", answer_after(1, refusal)) is refusal
        assert len(steps) == 0
        assert not steps.break_off("u", "too late")

    run_virtual(scenario())


def test_breaking_off_cancels_the_plugins_and_the_binding_goes_on_with_an_error() -> None:
    async def scenario() -> None:
        steps = PreBindSteps()
        cleaned: list[str] = []
        slept: list[float] = []
        loop = asyncio.get_running_loop()

        async def pre_bind() -> Status | None:
            try:
                return await answer_after(60, None)
            finally:
                cleaned.append("up")

        async def binding() -> None:
            status = await steps.run("u", pre_bind())
            assert status is not None
            assert (status.code, status.message) == (Code.ERROR, "first reason")
            await asyncio.wait_for(asyncio.sleep(5), 10)  # what follows is not cancelled
            slept.append(loop.time())

        task = asyncio.ensure_future(binding())
        await asyncio.sleep(1)
        assert steps.break_off("u", "first reason")
        assert steps.break_off("u", "second reason")
        await task
        assert (cleaned, slept) == (["up"], [6.0])

    run_virtual(scenario())


def test_the_error_names_the_plugin_that_was_broken_off() -> None:
    class Slow:
        name = "Slow"

        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            return await answer_after(60, None)

        def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            return None

    async def scenario() -> None:
        steps, framework = PreBindSteps(), framework_bench.Bench({"preBind": [Slow()]}).framework
        pod = PodInfo(make_pod("p").obj())
        pre_bind = framework.run_pre_bind(CycleState(), pod, "n1", lambda plugin: steps.note_turn("u", plugin))
        task = asyncio.ensure_future(steps.run("u", pre_bind))
        await asyncio.sleep(1)
        steps.break_off("u", "preempted")
        status = await task
        assert status is not None
        assert (status.code, status.message) == (Code.ERROR, 'running PreBind plugin "Slow": preempted')

    run_virtual(scenario())


def test_a_plugin_that_swallows_its_cancellation_does_not_save_the_binding() -> None:
    async def scenario() -> None:
        steps = PreBindSteps()

        async def stubborn() -> Status | None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
            return None

        task = asyncio.ensure_future(steps.run("u", stubborn()))
        await asyncio.sleep(1)
        steps.break_off("u", "why")
        status = await task
        assert status is not None
        assert status.message == "why"

    run_virtual(scenario())


def test_a_cancellation_from_outside_is_one() -> None:
    async def scenario() -> None:
        steps = PreBindSteps()
        task = asyncio.ensure_future(steps.run("u", answer_after(60, None)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(steps) == 0

    run_virtual(scenario())


def test_draining_ends_soon_after_those_left_have_begun_to_wait_for_others() -> None:
    async def scenario() -> None:
        now, waiting = asyncio.get_running_loop().time, 0

        async def cycle() -> None:
            nonlocal waiting
            await asyncio.sleep(3)
            waiting = 1  # in PreBind, whose writes have no answer yet
            await asyncio.sleep(1000)

        tasks = BindingTasks(2, lambda: None, unwritten=lambda: waiting)
        tasks.start(cycle())
        assert await tasks.drain(10) == 1
        assert now() < 3 + 2 * LOOK_S
        await tasks.cancel()

    run_virtual(scenario())
