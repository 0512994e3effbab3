"""Faults of the event loop itself: what is logged of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from kscheduler.client.fault_log import report_fault


def run(main: Coroutine[Any, Any, None]) -> None:
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(report_fault)
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()


async def write_on_a_closed_connection() -> RuntimeError:
    """What uvloop raises, in its own words."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.transport.abort()
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError) as raised:
            writer.transport.write(b"the last message of a handshake")
    return raised.value


def test_a_connection_that_is_closed_while_tls_writes_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        error = await write_on_a_closed_connection()
        context = {"message": "Fatal error on SSL protocol", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    run(main())
    assert [record.levelno for record in caplog.records if record.levelno > logging.DEBUG] == []


@pytest.mark.parametrize("message", ["Fatal error on SSL protocol", "Exception in callback"])
def test_any_other_fault_is_logged_as_the_loop_would(message: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        context = {"message": message, "exception": RuntimeError("cannot switch state from 1 to 2")}
        asyncio.get_running_loop().call_exception_handler(context)

    run(main())
    assert [record.getMessage() for record in caplog.records] == [message]
    assert caplog.records[0].exc_info is not None
