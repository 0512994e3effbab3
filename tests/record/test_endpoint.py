"""A record is served part by part: up to its last flush, in ranges, and in clear words where there is nothing."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from kscheduler.client.reviews import User
from kscheduler.observability.metrics import Metrics
from kscheduler.record.background import BackgroundWriter, KeptPart
from kscheduler.record.endpoint import MAX_DOWNLOADS, PIECE_BYTES, RecordEndpoint, Writes
from kscheduler.record.entries import Change, Header, Synced
from kscheduler.record.listing import STARTED
from kscheduler.record.reader import RecordReader
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.health import Health
from kscheduler.serving.server import Listen, Server
from tests.serving.named_by_token import NamedByToken

BEGAN = 1_700_000_000.25


class Readers:
    """The user "reader" may get /record and what is below it."""

    async def authorize(self, user: User, verb: str, path: str) -> Decision:
        is_allowed = (user.name, verb) == ("reader", "get") and path.startswith("/record")
        return ALLOWED if is_allowed else Decision(403, f'forbidden: User "{user.name}" cannot {verb} path "{path}"')


def note(writer: BackgroundWriter, number: int, size: int = 100) -> None:
    text = json.dumps({"metadata": {"name": f"p{number}"}, "x": "".join(chr(97 + i * i % 26) for i in range(size))})
    writer.write(Change(float(number), "pods", "ADDED", msgspec.Raw(text.encode())))


def begin(writer: BackgroundWriter) -> None:
    writer.write(Header(2, "0.1.0", BEGAN, writer.number))
    writer.write(Synced(0.0))


def flushed(writer: BackgroundWriter) -> int:
    """Flush the writer; return the size of its file then."""
    writer.flush()
    writer.settle()
    return writer.kept()[-1].bytes


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[BackgroundWriter]:
    writer = BackgroundWriter(tmp_path / "run.zst", keep_parts=2)
    begin(writer)
    flushed(writer)
    yield writer
    writer.close()


class Reader:
    """Sends requests with a token."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def get(self, path: str, token: str = "reader", **headers: str) -> aiohttp.ClientResponse:
        response = await self._session.get(
            self._base + path, headers={"Authorization": f"Bearer {token}", **headers}, allow_redirects=False
        )
        await response.read()
        return response

    async def begin(self, path: str) -> aiohttp.ClientResponse:
        """Return an answer of which only the headers were read."""
        return await self._session.get(self._base + path, headers={"Authorization": "Bearer reader"})

    async def words(self, path: str, status: int, **headers: str) -> str:
        response = await self.get(path, **headers)
        assert response.status == status
        document = await response.json()
        assert (document["kind"], document["code"]) == ("Status", status)
        return str(document["message"])


@asynccontextmanager
async def serving(writer: Writes) -> AsyncIterator[Reader]:
    server = Server(
        Listen("127.0.0.1", 0),
        metrics=Metrics(process=False),
        health=Health(),
        authenticator=NamedByToken(),
        authorizer=Readers(),
    )
    endpoint = RecordEndpoint(writer, BEGAN)
    server.add_handler("/record", endpoint.answer_list)
    server.add_handler("/record/{number}", endpoint.answer_part)
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Reader(session, f"http://127.0.0.1:{server.port}")
    await server.stop()


@pytest.fixture
async def reader(writer: BackgroundWriter) -> AsyncIterator[Reader]:
    async with serving(writer) as reader:
        yield reader


class OneFile:
    """A record of one file, whose size is announced as `size`."""

    first = 1
    keep_parts = 0
    failure = ""

    def __init__(self, path: Path, size: int) -> None:
        self._part = KeptPart(1, path, size, True)

    def kept(self) -> list[KeptPart]:
        return [self._part]


async def test_the_parts_are_listed_with_their_sizes(reader: Reader, writer: BackgroundWriter, tmp_path: Path) -> None:
    writer.next_part()
    begin(writer)
    size = flushed(writer)
    document = await (await reader.get("/record")).json()
    assert document.pop("version")
    assert document == {
        "started": BEGAN,
        "first": 1,
        "failure": "",
        "parts": [
            {"number": 1, "bytes": (tmp_path / "run.zst").stat().st_size, "complete": True},
            {"number": 2, "bytes": size, "complete": False},
        ],
    }


async def test_a_part_is_served_up_to_its_last_flush(reader: Reader, writer: BackgroundWriter, tmp_path: Path) -> None:
    note(writer, 1)
    size = flushed(writer)
    for number in range(2, 3_000):  # enough for complete blocks without a flush
        note(writer, number)
    writer.settle()
    response = await reader.get("/record/1")
    assert (response.status, response.content_length, response.headers[STARTED]) == (200, size, repr(BEGAN))
    copy = tmp_path / "copy.zst"
    copy.write_bytes(await response.read())
    assert copy.stat().st_size == size
    assert len(list(RecordReader(copy))) == 2


async def test_a_download_goes_on_where_it_ended(reader: Reader, writer: BackgroundWriter, tmp_path: Path) -> None:
    first = await (await reader.get("/record/1")).read()
    note(writer, 1)
    size = flushed(writer)
    response = await reader.get("/record/1", Range=f"bytes={len(first)}-")
    assert response.status == 206
    assert response.headers["Content-Range"] == f"bytes {len(first)}-{size - 1}/{size}"
    assert first + await response.read() == (tmp_path / "run.zst").read_bytes()[:size]


async def test_a_part_of_many_pieces_arrives_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    content = bytes(number * number % 251 for number in range(5 * PIECE_BYTES + 7))
    path.write_bytes(content)
    async with serving(OneFile(path, len(content))) as reader:
        assert await (await reader.get("/record/1")).read() == content
        part = await reader.get("/record/1", Range=f"bytes={PIECE_BYTES - 1}-{2 * PIECE_BYTES}")
        assert await part.read() == content[PIECE_BYTES - 1 : 2 * PIECE_BYTES + 1]


async def test_a_file_that_was_shortened_ends_the_answer_and_nothing_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    path.write_bytes(bytes(PIECE_BYTES))
    async with serving(OneFile(path, 3 * PIECE_BYTES)) as reader:
        with pytest.raises(aiohttp.ClientError):
            await reader.get("/record/1")
        assert (await reader.get("/record")).status == 200


@pytest.mark.parametrize("value", ["bytes=1000000-", "bytes=5-2", "lines=1-", "bytes=x-"])
async def test_a_wrong_range_is_refused(reader: Reader, value: str) -> None:
    words = await reader.words("/record/1", 416, Range=value)
    assert words.startswith("Range: expected bytes=FIRST- or bytes=FIRST-LAST within the ")
    assert words.endswith(f"got {value!r}")


@pytest.mark.parametrize("number", ["0", "2", "-1", "x", "1e3", "9" * 30, "%C2%B2", "..%2Frun.zst"])
async def test_a_part_that_never_was_is_refused(reader: Reader, number: str) -> None:
    words = await reader.words(f"/record/{number}", 404)
    assert words == "expected the number of a part of the record, such as 1"


async def test_a_removed_part_is_gone(reader: Reader, writer: BackgroundWriter) -> None:
    for _ in range(2):
        writer.next_part()
        begin(writer)
    flushed(writer)
    assert [each["number"] for each in (await (await reader.get("/record")).json())["parts"]] == [2, 3]
    words = "part 1 of the record was removed (--record-keep-parts=2)"
    assert await reader.words("/record/1", 410) == words


async def test_a_file_that_somebody_else_removed_is_gone(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "run.zst").unlink()
    assert "part 1 of the record was removed" in await reader.words("/record/1", 410)


async def test_nothing_is_served_without_the_right(reader: Reader) -> None:
    for path in ("/record", "/record/1", "/record/7"):
        response = await reader.get(path, token="stranger")
        assert response.status == 403
        assert f'User "stranger" cannot get path "{path}"' in (await response.json())["message"]


async def test_why_a_record_has_ended_early_is_listed(reader: Reader, writer: BackgroundWriter) -> None:
    writer.failure = "the disk is too slow"
    assert (await (await reader.get("/record")).json())["failure"] == "the disk is too slow"


async def test_downloads_at_once_are_limited_and_a_client_that_leaves_frees_its_place(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    size = 256 << 20  # far more than sockets buffer
    path.touch()
    os.truncate(path, size)
    async with serving(OneFile(path, size)) as reader:
        held = [await reader.begin("/record/1") for _ in range(MAX_DOWNLOADS)]
        assert [each.status for each in held] == [200] * MAX_DOWNLOADS
        words = await reader.words("/record/1", 429)
        assert words == "expected at most 4 downloads at once: try again later"
        for each in held:
            each.close()
        while (await reader.get("/record/1", Range="bytes=0-9")).status == 429:
            pass  # its place is freed when the server notices
