"""Watches that follow each other on one connection, on sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kscheduler.client import line_streams, watch_connections
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.line_streams import LineConnection
from kscheduler.client.transport import Transport
from kscheduler.client.watch_connections import LONGEST_S, LONGEST_UNHEARD_S
from kscheduler.watch.watches import LONGEST_PROOF_S
from tests.client.scripted_server import Server
from tests.support.clocks import CLOCK

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b"2\r\na\n\r\n"
END = b"0\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is between two watches."""
    monkeypatch.setattr(watch_connections, "KEPT_S", 3600.0)


@asynccontextmanager
async def answered(answer: Answer) -> AsyncIterator[tuple[Transport, Server]]:
    """A server that gives this answer to each request, and hangs up when `answer` has closed the connection."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)

    server = Server(script)
    async with server.pool() as pool:
        transport = Transport(Credentials(Endpoint(pool._endpoint.host, None), CLOCK), CLOCK)
        try:
            yield transport, server
        finally:
            await transport.close()


def always(*parts: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(parts))

    return answer


async def watch(transport: Transport, *, unheard_s: float = LONGEST_UNHEARD_S, lasted_s: float = 0.0) -> list[bytes]:
    """Return the lines of a watch, which is read to its end. `lasted_s` is how long it is to have taken."""
    lines: list[bytes] = []
    stream = await transport.open_stream("/watch", timeout_s=5.0, unheard_s=unheard_s)
    assert isinstance(stream, LineConnection)
    stream.asked_s -= lasted_s
    with transport.reading("/watch", stream):
        await stream.hand_over(lines.extend)
    return lines


async def test_a_watch_follows_another_on_its_connection() -> None:
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        assert [await watch(transport) for _ in range(3)] == [[b"a"]] * 3
        assert server.connections == 1


async def test_a_watch_that_may_not_have_the_connection_of_another_opens_one() -> None:
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        await watch(transport)
        assert await watch(transport, unheard_s=0.0) == [b"a"]
        assert server.connections == 2


async def test_watches_at_the_same_time_have_a_connection_each() -> None:
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        await asyncio.gather(watch(transport), watch(transport))
        await asyncio.gather(watch(transport), watch(transport))
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(always(HEAD, LINE, END, b"HTTP/1.1 "), id="something comes behind its end"),
        pytest.param(always(HEAD[:-2], b"Connection: close\r\n\r\n", LINE, END), id="the server wants to close it"),
        pytest.param(always(HEAD.replace(b"1.1", b"1.0"), LINE, END), id="the server is too old"),
    ],
)
async def test_a_connection_is_not_used_again_if(answer: Answer) -> None:
    async with answered(answer) as (transport, server):
        await watch(transport)
        await watch(transport)
        assert server.connections == 2


async def test_a_watch_that_brought_nothing_leaves_its_connection_for_a_minute_only() -> None:
    async with answered(always(HEAD, END)) as (transport, server):
        assert [await watch(transport, lasted_s=3.0) for _ in range(3)] == [[]] * 3
        assert server.connections == 1
        stream = await transport.open_stream("/watch", timeout_s=5.0)
        assert isinstance(stream, LineConnection)
        with transport.reading("/watch", stream):
            await stream.hand_over(lambda lines: None)
            stream.asked_s -= 3.0
            stream.heard_s -= LONGEST_UNHEARD_S
        await watch(transport)
        assert server.connections == 2


@pytest.mark.parametrize(("unheard_s", "connections"), [(30.0, 1), (60.0, 2)])
async def test_a_connection_is_unheard_for_a_minute_at_most_however_long_the_next_watch_would_bear_it(
    unheard_s: float, connections: int
) -> None:
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        stream = await transport.open_stream("/watch", timeout_s=5.0)
        assert isinstance(stream, LineConnection)
        with transport.reading("/watch", stream):
            await stream.hand_over(lambda lines: None)
            stream.heard_s -= unheard_s
        await watch(transport, unheard_s=float("inf"))
        assert server.connections == connections


def test_two_of_the_longest_tests_of_a_silent_watch_go_on_one_connection() -> None:
    assert LONGEST_UNHEARD_S == 2.0 * LONGEST_PROOF_S


async def test_a_watch_may_ask_for_a_connection_that_was_heard_of_a_moment_ago_and_leave_the_others() -> None:
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        first, second = [await transport.open_stream("/watch", timeout_s=5.0) for _ in range(2)]
        for stream in (first, second):
            assert isinstance(stream, LineConnection)
            with transport.reading("/watch", stream):
                await stream.hand_over(lambda lines: None)
        assert isinstance(second, LineConnection)
        second.heard_s -= 45.0
        assert await transport.open_stream("/watch", timeout_s=5.0, unheard_s=30.0) is first
        assert await transport.open_stream("/watch", timeout_s=5.0) is second
        first.close()
        second.close()
        assert server.connections == 2


async def test_a_watch_that_is_over_at_once_and_brought_nothing_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_streams, "_SHORTEST_S", float("inf"))  # however slow this machine is
    async with answered(always(HEAD, END)) as (transport, server):
        assert [await watch(transport) for _ in range(3)] == [[]] * 3
        assert server.connections == 3


async def test_a_watch_that_is_over_at_once_leaves_none_either_where_the_one_before_brought_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_streams, "_SHORTEST_S", float("inf"))
    bodies = iter([LINE + END, END, LINE + END])

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + next(bodies))

    async with answered(answer) as (transport, server):
        assert [await watch(transport) for _ in range(3)] == [[b"a"], [], [b"a"]]
        assert server.connections == 2


async def test_what_a_watch_brings_keeps_its_connection_from_being_replaced() -> None:
    asked = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        await asked.wait()
        writer.write(LINE + END)

    async with answered(answer) as (transport, server):
        for _ in range(2):
            stream = await transport.open_stream("/watch", timeout_s=5.0)
            assert isinstance(stream, LineConnection)
            stream.heard_s -= LONGEST_UNHEARD_S
            asked.set()
            with transport.reading("/watch", stream):
                await stream.hand_over(lambda lines: None)
            asked.clear()
        assert server.connections == 1


async def test_a_watch_that_is_given_up_leaves_no_connection() -> None:
    async with answered(always(HEAD, LINE)) as (transport, server):
        for _ in range(2):
            stream = await transport.open_stream("/watch", timeout_s=5.0)
            with transport.reading("/watch", stream):
                assert await stream.next_lines() == [b"a"]
        assert server.connections == 2


async def test_what_nobody_asked_for_ends_a_kept_connection() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + LINE + END)
        await asyncio.sleep(0.05)
        writer.write(HEAD + LINE + END)

    async with answered(answer) as (transport, server):
        await watch(transport)
        await asyncio.sleep(0.1)
        assert await watch(transport) == [b"a"]
        assert server.connections == 2


async def test_a_kept_connection_that_the_server_closes_is_replaced() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + LINE + END)
        writer.close()

    async with answered(answer) as (transport, server):
        assert [await watch(transport) for _ in range(3)] == [[b"a"]] * 3
        assert server.connections == 3


async def test_a_connection_that_is_closed_when_the_next_watch_is_asked_for_is_replaced() -> None:
    requests = 0

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        if requests == 2:
            writer.close()
        else:
            writer.write(HEAD + LINE + END)

    async with answered(answer) as (transport, server):
        assert [await watch(transport) for _ in range(2)] == [[b"a"]] * 2
        assert (requests, server.connections) == (3, 2)


async def test_a_connection_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[LineConnection] = []
    async with answered(always(HEAD, LINE, END)) as (transport, server):
        for _ in range(2):
            stream = await transport.open_stream("/watch", timeout_s=5.0)
            assert isinstance(stream, LineConnection)
            opened.append(stream)
            stream.opened_s -= LONGEST_S
            with transport.reading("/watch", stream):
                await stream.hand_over(lambda lines: None)
        assert server.connections == 2
        monkeypatch.setattr(watch_connections, "KEPT_S", 0.0)
        await watch(transport)
        await watch(transport)
        assert server.connections == 4


async def test_a_client_that_is_closed_keeps_no_connection() -> None:
    ended = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + LINE)
        await ended.wait()
        writer.write(END)

    async with answered(answer) as (transport, _):
        stream = await transport.open_stream("/watch", timeout_s=5.0)
        assert isinstance(stream, LineConnection)
        with transport.reading("/watch", stream):
            await transport.close()
            ended.set()
            await stream.hand_over(lambda lines: None)
        assert not stream.is_open
