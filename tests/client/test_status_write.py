"""A status that cannot be written is written again, unless that would not help."""

from __future__ import annotations

import logging

import pytest

from kscheduler.client.status_write import Written, write_status
from kscheduler.errors import APIError, Conflict, Forbidden, NotFound, Unreachable

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
