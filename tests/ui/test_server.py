"""`kscheduler ui` serves reports to this machine only, reads only, and says what is wrong with a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from kscheduler.command.flags.commands import parse
from kscheduler.command.flags.ui import UiOptions
from kscheduler.command.ui import ui
from kscheduler.errors import ConfigError
from kscheduler.simulator.report import to_json
from kscheduler.ui.documents import Document, DocumentKind, read_document
from kscheduler.ui.server import HEADERS, PageServer
from tests.simulator.reports import small
from tests.ui.reports import comparison, what_if


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    """Simulated before a loop runs: a simulation has one of its own."""
    return [Document("a.json", to_json(small())), Document("<b>.json", b"{}")]


@pytest.fixture
async def server(documents: list[Document]) -> AsyncIterator[PageServer]:
    server = PageServer(documents)
    await server.start(0)
    yield server
    await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


async def test_the_page_and_its_reports_are_served(server: PageServer, client: aiohttp.ClientSession) -> None:
    page = await (await client.get(server.url)).text()
    for name in re.findall(r'(?:href|src)="([\w./]+)"', page):
        response = await client.get(server.url + name)
        assert response.status == 200
        assert response.content_type in ("text/css", "text/javascript")
    assert await (await client.get(server.url + "reports.json")).json() == ["a.json", "<b>.json"]
    report = await (await client.get(server.url + "reports/0.json")).json()
    assert report["pods"]["total"] == 4


@pytest.mark.parametrize("path", ["", "main.js", "reports.json", "reports/0.json", "none", "..%2f..%2fsetup.py"])
async def test_every_answer_has_the_protecting_headers(
    server: PageServer, client: aiohttp.ClientSession, path: str
) -> None:
    for method in ("GET", "HEAD", "POST"):
        response = await client.request(method, server.url + path)
        assert response.status == (404 if path[:2] in ("no", "..") else 405 if method == "POST" else 200)
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "'unsafe" not in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_reading_is_allowed(server: PageServer, client: aiohttp.ClientSession, method: str) -> None:
    response = await client.request(method, server.url + "reports/0.json", data=b"x")
    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.", "0:0"])
async def test_a_foreign_host_gets_nothing(server: PageServer, client: aiohttp.ClientSession, host: str) -> None:
    response = await client.get(server.url + "reports/0.json", headers={"Host": host})
    assert response.status == 403
    assert "127.0.0.1" in await response.text()
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:8080"])
async def test_this_machine_may_be_named_with_any_port(
    server: PageServer, client: aiohttp.ClientSession, host: str
) -> None:
    assert (await client.get(server.url, headers={"Host": host})).status == 200


async def test_a_port_that_is_taken_is_named(server: PageServer) -> None:
    port = int(server.url.rpartition(":")[2].strip("/"))
    with pytest.raises(ConfigError, match=rf"--port {port}: cannot listen on 127\.0\.0\.1"):
        await PageServer([]).start(port)


def test_flags_of_ui_are_read() -> None:
    assert parse(["ui", "a.json"]) == UiOptions(("a.json",))
    assert parse(["ui", "a", "b", "--port", "80", "--no-browser"]) == UiOptions(("a", "b"), 80, browser=False)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "expected a report"),
        (b"{}", "missing required field `version`"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"version": 1}', "Expected `str`, got `int`"),
        (b"\xff\xfe", "expected a report"),
        (b'{"differences": []}', "missing required field `a`"),
        (b"[" * 100_000, "expected a report"),
        (b"\x28\xb5\x2f\xfd cut off", "expected a file compressed with zstd"),
    ],
)
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.json: ") as error:
        ui(UiOptions((str(path),)))
    assert fault in str(error.value)


@pytest.mark.parametrize(("kind", "make"), [(DocumentKind.COMPARISON, comparison), (DocumentKind.WHAT_IF, what_if)])
def test_what_holds_two_runs_is_not_compared_again(
    tmp_path: Path, kind: DocumentKind, make: Callable[[], dict[str, Any]]
) -> None:
    first, second = tmp_path / "report.json", tmp_path / "two.json"
    first.write_bytes(to_json(small()))
    second.write_bytes(msgspec.json.encode(make()))
    assert read_document(second).kind is kind
    expected = rf"two\.json: expected a report or a record, as two are given; this is a {kind}"
    with pytest.raises(ConfigError, match=expected):
        ui(UiOptions((str(first), str(second))))


COMMAND = "expected a `kscheduler whatif` command, quoted for a shell"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"command": None}, "Expected `str`, got `null` - at `$.command`"),
        ({"command": "kscheduler whatif --cordon n0; rm -r ."}, COMMAND),
        ({"command": "kscheduler whatif --cordon $(id)"}, COMMAND),
        ({"command": "kscheduler whatif --cordon 'n0"}, COMMAND),
        ({"command": "kscheduler whatif --cordon '\x1b[201~'"}, COMMAND),
        ({"command": "kscheduler run"}, COMMAND),
        ({"changes": "more nodes"}, "Expected `array`, got `str` - at `$.changes`"),
        ({"comparison": {}}, "missing required field `a` - at `$.comparison`"),
        ({"needed": {"shape": "small"}}, "missing required field `nodes` - at `$.needed`"),
        ({"waiting": [{"share": "p99"}]}, "missing required field `before_s` - at `$.waiting[0]`"),
    ],
)
def test_a_faulty_what_if_is_refused_with_the_first_fault(
    tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    path = tmp_path / "answer.json"
    path.write_bytes(msgspec.json.encode({**what_if(), **changes}))
    with pytest.raises(ConfigError, match=r"answer\.json: expected a report .*, a what-if, ") as error:
        read_document(path)
    assert fault in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ConfigError, match=rf"{re.escape(str(path))}: cannot be read: "):
            ui(UiOptions((str(path),)))


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="pipe: cannot be read: expected a regular file, got a pipe"):
        ui(UiOptions((str(path),)))


def test_a_report_of_an_earlier_version_is_accepted(tmp_path: Path) -> None:
    report = json.loads(to_json(small()))
    for name in ("flow", "node_history", "placements", "preempted", "decisions"):
        del report[name]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(report))
    assert read_document(path).name == "old.json"
