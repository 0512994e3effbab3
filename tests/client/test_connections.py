"""The connection pool against sockets that misbehave, on both event loops."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
import uvloop

from kscheduler.client import joint_reading
from kscheduler.client.connections import MOST_WARM, Connection, ConnectionPool, Exchange, open_connection
from kscheduler.client.credentials import Endpoint
from kscheduler.client.http_answer import Answer, AnswerReader, BadAnswer
from kscheduler.testing.controlplane.patience import ended, until
from tests.client.scripted_server import Script, Server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run(main: Coroutine[Any, Any, None]) -> None:
        loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
        try:
            loop.run_until_complete(main)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    return run


Run = Callable[[Coroutine[Any, Any, None]], None]


class Noting(Exchange, kw_only=True):
    """Notes its outcome."""

    outcomes: list[object] = msgspec.field(default_factory=list)
    reported: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def succeeded(self, status: int, received_bytes: int) -> None:
        self.outcomes.append((status, received_bytes))
        self.reported.set()

    def ended(self, outcome: Answer | Exception) -> None:
        self.outcomes.append(outcome)
        self.reported.set()


def ping() -> bytes:
    return b"GET /version HTTP/1.1\r\n\r\n"


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)


def test_requests_in_turn_share_a_connection_and_those_at_once_do_not(run: Run) -> None:
    async def main() -> None:
        server = Server(answer_all)
        async with server.pool() as pool:
            for _ in range(3):
                assert (await pool.exchange(REQUEST, 5)).body == b"ok"
            assert server.connections == 1
            await asyncio.gather(*(pool.exchange(REQUEST, 5) for _ in range(4)))
            assert server.connections == 4

    run(main())


def test_a_connection_idle_too_long_is_not_used(run: Run) -> None:
    async def main() -> None:
        server = Server(answer_all)
        async with server.pool(keep_alive_s=0.0) as pool:
            await pool.exchange(REQUEST, 5)
            await asyncio.sleep(0.01)
            await pool.exchange(REQUEST, 5)
            assert server.connections == 2

    run(main())


def test_a_connection_whose_client_certificate_has_expired_carries_nothing_more(run: Run) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")

    async def main() -> None:
        server = Server(refuse)
        async with server.pool() as pool:
            assert [(await pool.exchange(REQUEST, 5)).status for _ in range(2)] == [401, 401]
            assert server.connections == 2

    run(main())


def test_a_server_that_hangs_up_while_idle_costs_nothing(run: Run) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)

    async def main() -> None:
        server = Server(answer_once)
        async with server.pool() as pool:
            for _ in range(3):
                await pool.exchange(REQUEST, 5)
                await asyncio.sleep(0.02)
            assert server.connections == 3

    run(main())


@pytest.mark.parametrize(("recorded", "message"), [(b"", "before"), (OK[:30], "in the middle of")])
def test_a_server_that_hangs_up_on_a_request_is_an_error(run: Run, recorded: bytes, message: str) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(recorded)

    async def main() -> None:
        async with Server(hang_up).pool() as pool:
            with pytest.raises(ConnectionError, match=f"hung up {message} its answer"):
                await pool.exchange(REQUEST, 5)

    run(main())


def test_a_late_answer_goes_to_nobody_else(run: Run) -> None:
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            name = b"slow" if b"slow" in await reader.readuntil(b"\r\n\r\n") else b"fast"
            await asyncio.sleep(0.03 if name == b"slow" else 0)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + name)

    async def main() -> None:
        async with Server(late).pool() as pool:
            slow = REQUEST.replace(b"/ ", b"/slow ")
            with pytest.raises(asyncio.TimeoutError):
                await pool.exchange(slow, 0.01)
            cancelled = asyncio.ensure_future(pool.exchange(slow, 5))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            for _ in range(3):
                assert (await pool.exchange(REQUEST, 5)).body == b"fast"
                await asyncio.sleep(0.02)

    run(main())


def test_an_exchange_that_is_abandoned_ends_its_connection_and_has_no_outcome(run: Run) -> None:
    async def main() -> None:
        arrived, hung_up = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            arrived.set()
            await reader.read()
            hung_up.set()

        async with Server(silent).pool() as pool:
            exchange = Noting()
            connection = await pool.connect()
            connection.send(REQUEST, 3600.0, exchange)
            await ended(arrived.wait(), "the request arrives")
            exchange.abandon()
            await ended(hung_up.wait(), "the server sees the end")
            assert exchange.outcomes == []
            assert not connection.is_open

    run(main())


def replying(*pieces: bytes) -> Script:
    """Answers every request with these pieces."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)

    return reply


CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\nk8s\x00ok"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        ((CREATED,), (201, 6)),
        ((CREATED[:30], CREATED[30:50], CREATED[50:]), Answer(201, b"k8s\x00ok", "", True)),
        ((PAGE,), Answer(200, b"<html>", "", True)),
        ((CREATED.replace(b"201 Created", b"409 Conflict"),), Answer(409, b"k8s\x00ok", "", True)),
    ],
)
def test_a_plain_success_is_reported_by_its_numbers_and_any_other_answer_whole(
    run: Run, pieces: tuple[bytes, ...], outcome: object
) -> None:
    async def main() -> None:
        server = Server(replying(*pieces))
        async with server.pool() as pool:
            connection = await pool.connect()
            for _ in range(3):  # the outcome of one exchange, and none of its bytes, is the next one's
                exchange = Noting()
                connection.send(REQUEST, 5.0, exchange)
                await exchange.reported.wait()
                assert exchange.outcomes == [outcome]
                assert pool.take_idle() is connection
            assert server.connections == 1

    run(main())


ANSWERS = (
    b'HTTP/1.1 200 OK\r\nAudit-Id: x\r\nContent-Length: 9\r\n\r\n{"a": 12}',
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more",
    b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"{" * 9000,  # more than is read at a time
    CREATED,
    PAGE,
)


@pytest.mark.parametrize("recorded", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_that_is_waited_for_is_what_the_reader_makes_of_it_in_one_piece_or_two(
    run: Run, recorded: bytes
) -> None:
    expected = AnswerReader().feed(recorded)
    assert expected is not None

    async def main() -> None:
        for pieces in ((recorded,), (recorded[:20], recorded[20:])):
            server = Server(replying(*pieces))
            async with server.pool() as pool:
                connection = await pool.connect()
                assert await connection.exchange(REQUEST, 5.0) == expected
                assert (pool.take_idle() is connection) == expected.reusable

    run(main())


def test_a_connection_that_is_distrusted_carries_nothing_after_its_answer(run: Run) -> None:
    async def main() -> None:
        async with Server(replying(CREATED)).pool() as pool:
            for is_late in (False, True):
                connection, exchange = await pool.connect(), Noting()
                if not is_late:
                    exchange.distrust()
                connection.send(REQUEST, 5.0, exchange)
                if is_late:
                    exchange.distrust()
                await exchange.reported.wait()
                assert exchange.outcomes == [(201, 6)]
                assert not connection.is_open
                assert pool.take_idle() is None

    run(main())


def test_a_cancelled_exchange_that_was_answered_leaves_its_connection_to_the_next(run: Run) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with Server(silent).pool() as pool:
            connection = await pool.connect()
            first = asyncio.ensure_future(connection.exchange(REQUEST, 5))
            await asyncio.sleep(0)
            connection.buffer_updated(_fill(connection.get_buffer(-1), OK))
            first.cancel()  # together with its answer
            second = Noting()
            connection.send(REQUEST, 5.0, second)
            await asyncio.gather(first, return_exceptions=True)
            assert connection.is_open
            connection.buffer_updated(_fill(connection.get_buffer(-1), CREATED))
            assert second.outcomes == [(201, 6)]

    run(main())


def _fill(buffer: memoryview, data: bytes) -> int:
    buffer[: len(data)] = data
    return len(data)


def test_nonsense_is_an_error_and_ends_the_connection(run: Run) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 smtp.example.com\r\n\r\n")
        await reader.read()

    async def main() -> None:
        async with Server(nonsense).pool() as pool:
            with pytest.raises(BadAnswer, match="220 smtp"):
                await pool.exchange(REQUEST, 5)

    run(main())


def test_closing_fails_what_is_under_way(run: Run) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        async with Server(silent).pool() as pool:
            exchange = asyncio.ensure_future(pool.exchange(REQUEST, 5))
            await asyncio.sleep(0.02)
            await pool.close()
            with pytest.raises(ConnectionError):
                await exchange

    run(main())


# --- several together -------------------------------------------------------------------------------------------


REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
CLOSING = CREATED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
IN_FULL = Answer(429, b"{}", "1", True)


def answering(answers: bytes, size: int, *, then_hang_up: bool = False) -> Script:
    """Sends these bytes, so many at a time, after all of three requests."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(answers), size):
            writer.write(answers[start : start + size])
            await writer.drain()
            await asyncio.sleep(0.0 if size < 50 else 0.005)
        if not then_hang_up:
            await reader.read()

    return answer


async def three(pool: ConnectionPool, timeout_s: float = 5.0) -> tuple[Connection, list[Noting]]:
    """Send three requests together, and wait for their outcomes."""
    connection, exchanges = await pool.connect(), [Noting() for _ in range(3)]
    connection.send_together(3 * REQUEST, timeout_s, exchanges)
    for exchange in exchanges:
        await ended(exchange.reported.wait(), "each has an outcome")
    assert all(len(exchange.outcomes) == 1 for exchange in exchanges)
    return connection, exchanges


@pytest.mark.parametrize("size", [1, 7, 80, 10_000])
@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        ((CREATED, CREATED, CREATED), [(201, 6)] * 3),
        ((CREATED, REFUSED, CREATED), [(201, 6), IN_FULL, (201, 6)]),
        ((REFUSED, CREATED, PAGE), [IN_FULL, (201, 6), Answer(200, b"<html>", "", True)]),
        ((CHUNKED, CREATED, REFUSED), [Answer(201, b"{}", "", True), (201, 6), IN_FULL]),
    ],
)
def test_requests_sent_together_are_answered_in_their_order(
    run: Run, answers: tuple[bytes, ...], outcomes: list[object], size: int
) -> None:
    async def main() -> None:
        async with Server(answering(b"".join(answers), size)).pool() as pool:
            connection, exchanges = await three(pool)
            assert [_numbers(exchange.outcomes[0]) for exchange in exchanges] == [_numbers(each) for each in outcomes]
            assert pool.take_idle() is connection

    run(main())


def _numbers(outcome: object) -> object:
    """Return an answer by its numbers: in pieces a plain one is reported whole."""
    return (outcome.status, len(outcome.body)) if isinstance(outcome, Answer) else outcome


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(
    ("answers", "answered", "message"),
    [
        (b"", 0, "hung up before"),
        (CREATED, 1, "hung up before"),
        (CREATED + REFUSED, 2, "hung up before"),
        (CREATED + CREATED[:20], 1, "hung up in the middle of"),
        (CLOSING + CREATED, 1, "closed the connection after the answer before"),
        (CREATED + CLOSING, 2, "closed the connection after the answer before"),
        (CREATED + b"220 smtp.example.com\r\n\r\n", 1, "220 smtp"),
    ],
)
def test_a_connection_that_ends_in_the_middle_leaves_what_is_not_answered_in_doubt(
    run: Run, answers: bytes, answered: int, message: str, size: int
) -> None:
    async def main() -> None:
        async with Server(answering(answers, size, then_hang_up=True)).pool() as pool:
            connection, exchanges = await three(pool)
            outcomes = [exchange.outcomes[0] for exchange in exchanges]
            assert not any(isinstance(outcome, Exception) for outcome in outcomes[:answered])
            assert all(isinstance(outcome, (ConnectionError, BadAnswer)) for outcome in outcomes[answered:])
            assert all(message in str(outcome) for outcome in outcomes[answered:])
            assert not connection.is_open
            assert pool.take_idle() is None

    run(main())


def test_a_server_that_hangs_in_the_middle_is_given_its_time_for_each_request(run: Run) -> None:
    async def main() -> None:
        async with Server(answering(CREATED, 10_000)).pool() as pool:
            connection, exchanges = await three(pool, timeout_s=0.05)
            assert exchanges[0].outcomes == [(201, 6)]
            assert all(isinstance(exchange.outcomes[0], TimeoutError) for exchange in exchanges[1:])
            assert not connection.is_open

    run(main())


def test_more_answers_than_requests_and_distrust_end_a_connection_after_the_last_answer(run: Run) -> None:
    async def main() -> None:
        async with Server(answering(4 * CREATED, 10_000)).pool() as pool:
            connection, exchanges = await three(pool)
            assert [exchange.outcomes for exchange in exchanges] == [[(201, 6)]] * 3
            assert not connection.is_open
        async with Server(answering(3 * CREATED, 10_000)).pool() as pool:
            connection, exchanges = await pool.connect(), [Noting() for _ in range(3)]
            connection.send_together(3 * REQUEST, 5.0, exchanges)
            exchanges[1].distrust()
            await ended(exchanges[2].reported.wait(), "the last is answered")
            assert [exchange.outcomes for exchange in exchanges] == [[(201, 6)]] * 3
            assert not connection.is_open

    run(main())


def test_a_fault_of_one_who_hears_of_the_end_keeps_none_of_those_behind_from_it(run: Run) -> None:
    class Faulty(Noting, kw_only=True):
        def ended(self, outcome: Answer | Exception) -> None:
            raise RuntimeError("a bug")

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        server = Server(hang_up)
        async with server.pool() as pool:
            connection = await pool.connect()
            behind = Noting()
            connection.send_together(2 * REQUEST, 5, [Faulty(), behind])
            await ended(behind.reported.wait(), "the second is reported")
            assert isinstance(behind.outcomes[0], ConnectionError)

    run(main())


def test_requests_sent_together_on_a_connection_that_has_closed_all_fail(run: Run) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    async def main() -> None:
        async with Server(hang_up).pool() as pool:
            connection, exchanges = await pool.connect(), [Noting() for _ in range(3)]
            while connection.is_open:  # noqa: ASYNC110 -- the server closes it at once
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            connection.send_together(3 * REQUEST, 5.0, exchanges)
            for exchange in exchanges:
                await ended(exchange.reported.wait(), "each has an outcome")
                assert isinstance(exchange.outcomes[0], ConnectionError)

    run(main())


# --- read together ----------------------------------------------------------------------------------------------


def answers_in_steps(steps: list[bytes], may_go: asyncio.Semaphore) -> Script:
    """Answers three requests with CREATED at once, and three more with these bytes, each of them when it may."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for is_first in (True, False):
            for _ in range(3):
                await reader.readuntil(b"\r\n\r\n")
            if is_first:
                writer.write(3 * CREATED)
        for step in steps:
            await may_go.acquire()
            writer.write(step)
            await writer.drain()
        await reader.read()

    return answer


async def put_off(pool: ConnectionPool) -> tuple[Connection, list[Noting]]:
    """Send three requests together on a connection that has learned how long answers are."""
    connection, _ = await three(pool)
    assert pool.take_idle() is connection
    exchanges = [Noting() for _ in range(3)]
    connection.send_together(3 * REQUEST, 5.0, exchanges)
    return connection, exchanges


def least_bytes(connection: Connection) -> int:
    """Return from how many bytes on the kernel reports the connection as readable."""
    assert connection.transport is not None
    found: int = connection.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
    return found


def test_answers_to_requests_sent_together_are_read_once_all_have_come(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint_reading, "PATIENCE_S", 3600.0)

    async def main() -> None:
        may_go = asyncio.Semaphore(0)
        short = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        steps = [CREATED, CREATED, CREATED[:-1], CREATED[-1:], short]
        async with Server(answers_in_steps(steps, may_go)).pool() as pool:
            connection, exchanges = await put_off(pool)
            assert least_bytes(connection) == 3 * len(CREATED)
            for _ in range(4):
                may_go.release()
            for exchange in exchanges:
                await ended(exchange.reported.wait(), "each has an outcome")
                assert exchange.outcomes == [(201, 6)]
            assert least_bytes(connection) == 1
            # The next answer is read however short it is.
            assert pool.take_idle() is connection
            single = Noting()
            connection.send(REQUEST, 5.0, single)
            may_go.release()
            await ended(single.reported.wait(), "the short answer is read")
            assert single.outcomes == [(200, 0)]

    run(main())


def test_answers_shorter_than_any_before_are_read_after_a_while(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_reading, "PATIENCE_S", 0.01)

    async def main() -> None:
        may_go = asyncio.Semaphore(9)
        short = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
        async with Server(answers_in_steps([short, short, short], may_go)).pool() as pool:
            connection, exchanges = await put_off(pool)
            for exchange in exchanges:
                await ended(exchange.reported.wait(), "each has an outcome")
                assert exchange.outcomes == [(201, 0)]
            assert pool.take_idle() is connection

    run(main())


@pytest.mark.parametrize("answered", [0, 1])
def test_the_end_of_a_connection_is_noticed_before_all_answers_have_come(
    run: Run, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    monkeypatch.setattr(joint_reading, "PATIENCE_S", 3600.0)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answers in (3, answered):
            for _ in range(3):
                await reader.readuntil(b"\r\n\r\n")
            writer.write(answers * CREATED)

    async def main() -> None:
        async with Server(hang_up).pool() as pool:
            _, exchanges = await put_off(pool)
            for exchange in exchanges:
                await ended(exchange.reported.wait(), "each has an outcome")
            assert [exchange.outcomes for exchange in exchanges[:answered]] == [[(201, 6)]] * answered
            assert all(isinstance(exchange.outcomes[0], ConnectionError) for exchange in exchanges[answered:])

    run(main())


# --- kept warm --------------------------------------------------------------------------------------------------


def noting(asked: list[bytes]) -> Script:
    """Answers everything, and notes the verbs."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.append((await reader.readuntil(b"\r\n\r\n")).split()[0])
            writer.write(OK)

    return answer


async def burst(pool: ConnectionPool, size: int) -> None:
    await asyncio.gather(*(pool.exchange(REQUEST, 5) for _ in range(size)))


def test_a_burst_after_a_pause_opens_no_new_connections(run: Run) -> None:
    async def main() -> None:
        asked: list[bytes] = []

        server = Server(noting(asked))
        # Whatever is older than nothing is too old to be used, unless it was asked for the version meanwhile.
        async with server.pool(ping=ping, warm_age_s=0.0) as pool:
            await burst(pool, 3)
            await pool.warm_up()
            assert asked == [b"POST"] * 3 + [b"GET"] * 3
            await burst(pool, 3)
            assert server.connections == 3

    run(main())


def test_connections_used_a_moment_ago_are_not_asked(run: Run) -> None:
    async def main() -> None:
        asked: list[bytes] = []

        server = Server(noting(asked))
        async with server.pool(ping=ping, warm_age_s=3600.0) as pool:
            await burst(pool, 2)
            await pool.warm_up()
            await burst(pool, 2)
            assert asked == [b"POST"] * 4

    run(main())


def test_spares_beyond_the_warm_ones_run_dry(run: Run) -> None:
    async def main() -> None:
        server = Server(answer_all)
        async with server.pool(keep_alive_s=0.0, ping=ping, warm_age_s=0.0) as pool:
            await burst(pool, MOST_WARM + 5)
            await pool.warm_up()
            await asyncio.sleep(0)
            assert len(pool._all) == MOST_WARM

    run(main())


def test_connections_that_the_server_closed_are_opened_again(run: Run) -> None:
    async def main() -> None:
        async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))

        server = Server(answer_once)
        async with server.pool(ping=ping) as pool:
            await burst(pool, 2)
            await asyncio.sleep(0)  # both are dropped
            assert len(pool._all) == 0
            server.script = answer_all
            await pool.warm_up()
            assert len(pool._all) == 2
            await burst(pool, 2)
            assert server.connections == 4

    run(main())


def test_a_server_that_closes_each_connection_at_once_is_asked_no_more_than_once_for_each_that_is_missing(
    run: Run,
) -> None:
    async def main() -> None:
        async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if server.connections > 100:  # it would go on for ever
                warming.cancel()

        server = Server(answer_all)
        async with server.pool() as pool:
            await burst(pool, 3)
            server.script = close_at_once
            for connection in list(pool._all):
                connection.abort()
            await until(lambda: not pool._all, "all are closed")
            warming = asyncio.ensure_future(pool.warm_up())
            await ended(asyncio.wait({warming}), "it has tried")
            assert server.connections <= 6

    run(main())


def test_warming_goes_on_by_itself_when_the_server_was_away(run: Run) -> None:
    async def main() -> None:
        served = asyncio.Event()

        async def answer_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):  # the request, and the first time it is asked for the version
                await reader.readuntil(b"\r\n\r\n")
                writer.write(OK)
            server.script = answer_and_note

        async def answer_and_note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(OK)
                served.set()

        server = Server(answer_twice)
        async with server.pool(ping=ping, warm_period_s=0.001, warm_age_s=0.0) as pool:
            await pool.exchange(REQUEST, 5)
            await ended(served.wait(), "it is served")
            assert server.connections == 2

    run(main())


def test_no_ping_is_sent_while_there_is_none(run: Run) -> None:
    async def main() -> None:
        server = Server(answer_all)
        async with server.pool(ping=bytes, warm_age_s=0.0) as pool:
            await burst(pool, 2)
            await pool.warm_up()
            await burst(pool, 2)
            assert server.connections == len(pool._all) == 2

    run(main())


# --- suspected --------------------------------------------------------------------------------------------------


class Deafened:
    """A server that answers on a connection until `deafen` is called with it open. It notes the verbs of requests."""

    def __init__(self, *, hangs_up: bool = False) -> None:
        self.asked: list[bytes] = []
        self.deaf: set[int] = set()
        self.server = Server(self._answer)
        self._hangs_up = hangs_up

    def deafen(self) -> None:
        self.deaf = set(range(1, self.server.connections + 1))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.server.connections
        while True:
            verb = (await reader.readuntil(b"\r\n\r\n")).split()[0]
            self.asked.append(verb)
            if number not in self.deaf:
                writer.write(OK)
            elif self._hangs_up:
                return


async def overdue(pool: ConnectionPool) -> Noting:
    """A request on an idle connection that has waited for its answer for longer than usual."""
    connection = pool.take_idle()
    assert connection is not None
    request = Noting()
    connection.send(REQUEST, 60.0, request)
    request.distrust()
    return request


def test_after_an_overdue_answer_the_next_request_meets_no_other_connection_that_died_as_well(run: Run) -> None:
    async def main() -> None:
        one = Deafened()
        async with one.server.pool(ping=ping) as pool:
            await burst(pool, 3)
            one.deafen()
            lost = await overdue(pool)
            assert (await pool.exchange(REQUEST, 5.0)).status == 200
            assert one.server.connections == 4
            assert lost.outcomes == []

    run(main())


def test_connections_that_answer_when_they_are_suspected_are_used_again(run: Run) -> None:
    async def main() -> None:
        one = Deafened()
        async with one.server.pool(ping=ping) as pool:
            await burst(pool, 3)
            await overdue(pool)
            assert pool.take_idle() is None
            await until(lambda: len(pool.idle) == 2)
            await burst(pool, 2)
            assert one.server.connections == 3
            assert one.asked.count(b"GET") == 2

    run(main())


def test_a_connection_that_was_answered_since_is_not_suspected(run: Run) -> None:
    async def main() -> None:
        one = Deafened()
        async with one.server.pool(ping=ping) as pool:
            await burst(pool, 2)
            older, newer = pool.idle
            newer.last_used = older.last_used + 1.0
            pool.suspect(older.last_used)
            assert pool.idle == [newer]
            await until(lambda: pool.idle == [newer, older])
            assert one.asked.count(b"GET") == 1

    run(main())


def test_when_a_kept_connection_was_lost_the_next_request_meets_no_other_that_was(run: Run) -> None:
    async def main() -> None:
        one = Deafened(hangs_up=True)
        async with one.server.pool(ping=ping) as pool:
            await burst(pool, 3)
            one.deafen()
            with pytest.raises(ConnectionResetError):
                await pool.exchange(REQUEST, 5.0)
            assert (await pool.exchange(REQUEST, 5.0)).status == 200

    run(main())


def test_a_ping_without_an_answer_makes_all_connections_of_its_age_suspected(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.client.connections.WARM_TIMEOUT_S", 0.01)

    async def main() -> None:
        one = Deafened()
        async with one.server.pool(ping=ping, warm_age_s=0.0) as pool:
            await burst(pool, 3)
            one.deafen()
            with pytest.raises(TimeoutError):
                await pool.warm_up()
            await until(lambda: not pool._all)
            assert one.asked.count(b"GET") == 3

    run(main())


@pytest.mark.parametrize(("asks", "size"), [(bytes, 3), (ping, MOST_WARM + 5)])
def test_of_suspected_connections_those_that_cannot_be_asked_and_spares_are_closed(
    run: Run, asks: Callable[[], bytes], size: int
) -> None:
    async def main() -> None:
        one = Deafened()
        async with one.server.pool(ping=asks) as pool:
            await burst(pool, size)
            await overdue(pool)
            left = min(size - 1, MOST_WARM) if asks is ping else 0
            await until(lambda: len(pool._all) == len(pool.idle) == left)  # without the one that was overdue

    run(main())


class OpenTransport(asyncio.Transport):
    def __init__(self, opened: list[asyncio.Transport]) -> None:
        super().__init__()
        self._opened = opened
        opened.append(self)

    def abort(self) -> None:
        self._opened.remove(self)


class LoopWithGate(asyncio.SelectorEventLoop):
    """Its connections are there as soon as the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = self.create_future()
        self.opened: list[asyncio.Transport] = []

    async def create_connection(self, protocol_factory: Any, *_: Any, **__: Any) -> Any:
        await self.gate
        return OpenTransport(self.opened), protocol_factory()


@pytest.mark.parametrize("turns", range(6))
def test_who_is_cancelled_as_the_connection_comes_ends_and_leaves_none(turns: int) -> None:
    """However close together: a watch that outlived its cancellation kept a new leader from its work."""
    loop = LoopWithGate()
    connected: list[asyncio.BaseProtocol] = []

    async def main() -> bool:
        watching = asyncio.ensure_future(connect_and_stay())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loop.gate.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        was_open = bool(connected)
        watching.cancel()
        done, _ = await asyncio.wait([watching], timeout=120)
        assert done, "the cancellation was lost"
        return was_open

    async def connect_and_stay() -> None:
        connected.append(await open_connection(Endpoint("http://host", None), asyncio.BaseProtocol, 5.0))
        await asyncio.sleep(3600)

    try:
        was_open = loop.run_until_complete(main())
    finally:
        loop.close()
    assert len(loop.opened) == (1 if was_open else 0)


def test_a_connection_that_does_not_come_in_time_is_given_up() -> None:
    loop = LoopWithGate()

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await open_connection(Endpoint("http://host", None), asyncio.BaseProtocol, 0.01)
        loop.gate.cancel()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert loop.opened == []
