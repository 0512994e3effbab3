"""A status that cannot be written is written again, unless that would not help."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.status_write import Written, write_status, write_when_set
from kscheduler.errors import APIError, Conflict, Forbidden, NotFound, Unreachable
from kscheduler.simulator.virtual_time import run_virtual

LOG = logging.getLogger("kscheduler.client.status_write")


async def outcome(error: APIError | None = None) -> Written:
    async def write() -> None:
        if error is not None:
            raise error

    return await write_status(write(), "status of a thing", LOG, thing="shop/one")


@pytest.mark.parametrize("error", [NotFound("gone"), Conflict("another version")])
async def test_an_object_that_is_gone_or_has_changed_is_left_to_its_newer_version(
    error: APIError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert await outcome(error) is Written.DROPPED
    assert caplog.records == []


async def test_a_missing_right_is_a_warning_and_not_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await outcome(Forbidden("may not patch")) is Written.DROPPED
    assert [(each.levelname, each.getMessage(), vars(each)["thing"]) for each in caplog.records] == [
        ("WARNING", "status of a thing not written", "shop/one")
    ]


async def test_what_may_pass_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await outcome(Unreachable("no route")) is Written.AGAIN
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "status of a thing not written yet")
    ]


async def test_what_was_written_is_done() -> None:
    assert await outcome() is Written.DONE


def test_changes_are_written_together_and_what_is_left_after_a_pause() -> None:
    async def scenario() -> None:
        loop, work = asyncio.get_running_loop(), asyncio.Event()
        calls: list[float] = []

        async def write_all() -> bool:
            calls.append(loop.time() - started)
            return len(calls) > 1

        started = loop.time()
        writing = asyncio.ensure_future(write_when_set(work, write_all, pause_s=5.0, gather_s=1.0))
        work.set()
        await asyncio.sleep(0.5)
        work.set()
        await asyncio.sleep(60.0)
        assert calls == [1.0, 7.0]
        await cancel_and_wait(writing)

    run_virtual(scenario())
