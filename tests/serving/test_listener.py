"""What a listener does with bytes that are no request."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web

from kscheduler.serving.listener import Listen, Listener

CANARY = "hunter2"
MALFORMED = {
    "a byte that no header holds": f"GET / HTTP/1.1\r\nAuthorization: Bearer {CANARY}\0\r\n\r\n",
    "a header without a colon": f"GET / HTTP/1.1\r\nHost: a\r\n{CANARY} x\r\n\r\n",
    "a header without end": f"GET / HTTP/1.1\r\nAuthorization: Bearer {CANARY * 10_000}\r\n\r\n",
    "an unknown version": f"GET /?token={CANARY} HTTP/9.1\r\n\r\n",
    "an address in pieces": f"GET http://[{CANARY}/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a chunk without a size": f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n\r\n",
    "a body that is not compressed": f"POST / HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\n{CANARY}",
    "no HTTP at all": f"\x16\x03\x01{CANARY}\r\n\r\n",
}


async def read_all(request: web.Request) -> web.Response:
    if request.path == "/broken":
        raise RuntimeError("a fault of ours")
    return web.Response(body=await request.read())


async def answers_to(*texts: str) -> list[bytes]:
    """One connection each; what comes back, to the end."""
    listener = Listener(Listen("127.0.0.1", 0), "--secure-port", reload_s=60, max_body=1024)
    listener.app.router.add_route("*", "/{path:.*}", read_all)
    await listener.start()
    answers = []
    try:
        for text in texts:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(text.encode("latin-1"))
            answers.append(await reader.read())
            writer.close()
            await writer.wait_closed()
    finally:
        await listener.stop()
    return answers


@pytest.mark.parametrize("case", MALFORMED)
async def test_of_a_malformed_request_the_log_has_neither_a_stack_nor_a_byte(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    [answer] = await answers_to(MALFORMED[case])
    assert answer.split(b" ")[1] in (b"400", b"500")
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == []
    assert "a malformed request was refused" in caplog.messages
    assert CANARY not in caplog.text
    assert "Traceback" not in caplog.text
    assert not any(CANARY in str(vars(record)) for record in caplog.records)


async def test_a_fault_of_ours_is_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    [answer] = await answers_to("GET /broken HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500")
    assert "RuntimeError: a fault of ours" in caplog.text
