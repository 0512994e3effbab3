"""The main task runs to its end whatever the tasks and timers of plugins raise."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator

import pytest
import uvloop

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.command.main_loop import run_to_its_end


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = uvloop.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def signals_are_handled_by_the_loop() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)


def leave(error: BaseException) -> None:
    raise error


async def leave_later(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


def by_a_task(error: BaseException) -> None:
    asyncio.get_running_loop().create_task(leave_later(error)).add_done_callback(asyncio.Task.exception)


def by_a_timer(error: BaseException) -> None:
    asyncio.get_running_loop().call_later(0.001, leave, error)


def by_a_callback(error: BaseException) -> None:
    asyncio.get_running_loop().call_soon(leave, error)


async def goes_on(begin: Callable[[], object]) -> str:
    """Begin something that may stop the loop, and wait for what was ready, and for timers, that were set after it."""
    begin()
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(later.set_result, None)
    await later
    await asyncio.sleep(0.01)
    return "done"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("way", [by_a_task, by_a_timer, by_a_callback])
def test_a_plugins_task_or_timer_that_ends_the_process_does_not_stop_it(
    way: Callable[[BaseException], None],
    error: BaseException,
    loop: asyncio.AbstractEventLoop,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert run_to_its_end(loop, goes_on(lambda: way(error))) == "done"
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "in leave" in caplog.text  # the stack shows where


def test_several_that_end_the_process_at_once_do_not_stop_it(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def begin() -> None:
        for way in (by_a_task, by_a_callback, by_a_timer, by_a_callback):
            way(SystemExit(3))

    assert run_to_its_end(loop, goes_on(begin)) == "done"
    assert caplog.records  # uvloop forgets those of one round but the last


def test_a_plugin_that_stops_the_loop_does_not_stop_the_process(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_to_its_end(loop, goes_on(loop.stop)) == "done"
    assert [record.message for record in caplog.records] == ["the event loop was stopped, as by a plugin; it runs on"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RuntimeError("ours"), ValueError("ours")])
def test_what_the_main_task_raises_is_raised(
    error: BaseException, loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)) as raised:
        run_to_its_end(loop, leave_later(error))
    assert raised.value is error
    assert caplog.records == []


def test_ctrl_c_that_no_handler_of_the_loop_takes_ends_the_process(loop: asyncio.AbstractEventLoop) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def wait_long() -> None:
        loop.call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.sleep(3600.0)

    with pytest.raises(KeyboardInterrupt):
        run_to_its_end(loop, wait_long())
    left = asyncio.all_tasks(loop)
    loop.run_until_complete(cancel_and_wait(*left))
