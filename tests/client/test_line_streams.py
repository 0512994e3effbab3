"""Watches on sockets that misbehave, on connections of our own and through a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import uvloop

from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.credentials import Credentials, Endpoint
from kscheduler.client.kinds import PODS
from kscheduler.client.kube import KubeClient
from kscheduler.client.line_streams import LineStream
from kscheduler.client.transport import Transport
from kscheduler.errors import Gone, Unreachable
from kscheduler.input.redaction import SecretURL
from kscheduler.simulator.virtual_time import run_virtual
from tests.client.fake_apiserver import FakeAPIServer, WatchScript, line, pod
from tests.client.scripted_server import Script, Server
from tests.support.certificates import Authority, write_kubeconfig
from tests.support.clocks import CLOCK

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def stream_from(script: Script, *, through_proxy: bool = False) -> AsyncIterator[LineStream]:
    async with Server(script).pool() as pool:
        url = pool._endpoint.host
        endpoint = (
            Endpoint("http://apiserver.example", None, proxy=SecretURL(url)) if through_proxy else Endpoint(url, None)
        )
        transport = Transport(Credentials(endpoint, CLOCK), CLOCK)
        try:
            stream = await transport.open_stream("/watch", timeout_s=5.0)
            with transport.reading("/watch", stream):
                yield stream
        finally:
            await transport.close()


async def all_lines(stream: LineStream) -> list[bytes]:
    lines: list[bytes] = []
    while (batch := await stream.next_lines()) is not None:
        assert batch
        lines += batch
    return lines


async def read(
    script: Script, came: list[bytes], *, through_proxy: bool = False, is_handed_over: bool, idle_s: float = 60.0
) -> None:
    """Read all lines into `came`."""
    async with stream_from(script, through_proxy=through_proxy) as stream:
        stream.idle_s = idle_s
        if is_handed_over:
            await stream.hand_over(came.extend)
            return
        while (batch := await stream.next_lines()) is not None:
            came += batch


ways = pytest.mark.parametrize("through_proxy", [False, True])
readers = pytest.mark.parametrize("is_handed_over", [False, True])


@ways
async def test_lines_come_in_the_batches_in_which_they_arrive(through_proxy: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"a\n") + chunk(b"b\n"))
        await asyncio.sleep(0.05)
        writer.write(chunk(b"c\nd") + chunk(b"d\n") + END)
        await reader.read()

    async with stream_from(script, through_proxy=through_proxy) as stream:
        assert await stream.next_lines() == [b"a", b"b"]
        assert await all_lines(stream) == [b"c", b"dd"]


@readers
@ways
@pytest.mark.parametrize("rest", [b"", b"5\r\nab", chunk(b"ab")])
async def test_a_server_that_hangs_up_has_broken_the_watch_but_not_what_came(
    rest: bytes, through_proxy: bool, is_handed_over: bool
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"a\n") + rest)

    came: list[bytes] = []
    with pytest.raises(Unreachable, match="WATCH /watch"):
        await read(script, came, through_proxy=through_proxy, is_handed_over=is_handed_over)
    assert came == [b"a"]


@readers
@ways
async def test_silence_beyond_the_limit_breaks_the_watch(through_proxy: bool, is_handed_over: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"a\n"))
        await reader.read()

    came: list[bytes] = []
    with pytest.raises(Unreachable, match="silent for 0 s"):
        await read(script, came, through_proxy=through_proxy, is_handed_over=is_handed_over, idle_s=0.1)
    assert came == [b"a"]


class Guarded(LineStream):
    """A stream of which only the check for silence matters, with what it did and when."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: list[float] = []
        self.silent_at: float | None = None

    async def next_lines(self) -> list[bytes] | None:
        raise NotImplementedError

    def close(self) -> None:
        self._stop_guard()

    def hear(self) -> None:
        self._heard()

    def _look(self) -> None:
        self.looked.append(self._loop.time())
        super()._look()

    def _went_silent(self) -> None:
        self.silent_at = self._loop.time()


@pytest.mark.parametrize(
    ("heard", "looked", "silent_at"),
    [
        pytest.param([], [0.0, 45.0], 45.0, id="never"),
        pytest.param([10.0, 20.0, 30.0], [0.0, 45.0, 75.0], 75.0, id="for half a minute"),
        pytest.param([44.0, 88.0, 132.0], [0.0, 45.0, 89.0, 133.0, 177.0], 177.0, id="just in time"),
    ],
)
def test_a_stream_is_looked_at_when_it_may_have_been_silent_for_long_enough_and_at_no_other_time(
    heard: list[float], looked: list[float], silent_at: float
) -> None:
    async def scenario() -> Guarded:
        stream = Guarded()
        stream.idle_s = 45.0
        for at_s in heard:
            asyncio.get_running_loop().call_at(at_s, stream.hear)
        await asyncio.sleep(600.0)
        return stream

    stream = run_virtual(scenario())
    assert (stream.looked, stream.silent_at) == (looked, silent_at)


def test_a_watch_that_ends_in_time_is_never_looked_at_again() -> None:
    async def scenario() -> Guarded:
        stream = Guarded()
        stream.idle_s = 45.0
        await asyncio.sleep(30.0)
        stream.close()
        await asyncio.sleep(600.0)
        return stream

    assert run_virtual(scenario()).looked == [0.0]


@ways
async def test_a_refusal_is_raised_with_its_words(through_proxy: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 410 Gone\r\nContent-Length: 21\r\n\r\n{"message":"too old"}')
        await reader.read()

    with pytest.raises(Gone, match="too old"):
        async with stream_from(script, through_proxy=through_proxy):
            pass


@readers
async def test_garbage_breaks_the_watch_after_what_came_before_it(is_handed_over: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"a\n"))
        await asyncio.sleep(0.02)
        writer.write(b"no size\r\n")
        await reader.read()

    came: list[bytes] = []
    with pytest.raises(Unreachable, match="a chunk of size b'no size'"):
        await read(script, came, is_handed_over=is_handed_over)
    assert came == [b"a"]


async def test_headers_that_do_not_come_are_not_waited_for() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD[:10])
        await reader.read()

    async with Server(script).pool() as pool:
        transport = Transport(Credentials(pool._endpoint, CLOCK), CLOCK)
        with pytest.raises(Unreachable, match="timed out"):
            await transport.open_stream("/watch", timeout_s=0.05)
        await transport.close()


async def test_a_server_faster_than_its_reader_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.client.line_streams._QUEUE_BYTES", 100_000)
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for _ in range(400):
            writer.write(chunk(b"x" * 99_999 + b"\n"))
            await writer.drain()
            sent += 1
        writer.write(END)
        await reader.read()

    async with stream_from(script) as stream:
        first = await stream.next_lines()
        assert first is not None
        await asyncio.sleep(0.5)
        assert sent < 400  # 40 MB; sockets hold a few
        lines = first + await all_lines(stream)
    assert len(lines) == 400
    assert set(map(len, lines)) == {99_999}


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_lines_are_handed_over_a_buffer_in_a_turn_of_the_loop(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"".join(chunk(b"%05d" % number * 2_000 + b"\n") for number in range(1_000)) + END)
        await reader.read()

    came: list[bytes] = []
    turns: list[int] = []  # bytes that were handed over in each turn

    def take(lines: list[bytes]) -> None:
        came.extend(lines)
        turns[-1] += sum(map(len, lines))

    async def main() -> None:
        async with stream_from(script) as stream:
            reading = asyncio.ensure_future(stream.hand_over(take))
            while not reading.done():
                turns.append(0)
                await asyncio.sleep(0)

    with closing(new_loop()) as loop:
        loop.run_until_complete(main())
    assert [int(line[:5]) for line in came] == list(range(1_000))
    assert max(turns) < 2 * (1 << 17)


async def test_a_watch_that_is_given_up_hands_nothing_more_over() -> None:
    written = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunk(b"a\n"))
        await written.wait()
        writer.write(chunk(b"b\n"))
        await reader.read()

    came: list[bytes] = []
    async with stream_from(script) as stream:
        reading = asyncio.ensure_future(stream.hand_over(came.extend))
        while not came:  # noqa: ASYNC110 -- a socket's bytes
            await asyncio.sleep(0)
        await cancel_and_wait(reading)
        written.set()
        assert await stream.next_lines() == [b"b"]
    assert came == [b"a"]


async def test_a_watch_goes_over_tls(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path, "me")
    async with FakeAPIServer().running(authority.server_context(tmp_path)) as server:
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        client = await KubeClient.connect(CLOCK, kubeconfig=write_kubeconfig(tmp_path, server.url, authority, user))
        server.watches = [WatchScript([line("ADDED", pod(f"p{number}", number)) for number in range(5)])]
        events = [event async for batch in client.watch(PODS, resource_version="1") for event in batch]
        assert len(events) == 5
        await client.close()
