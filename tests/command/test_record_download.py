"""`kscheduler record --from` as a user meets it: the record of a scheduler is downloaded over a real socket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kscheduler.command.cli import main
from kscheduler.command.flags.record import RECORD_PATH, RecordOptions
from kscheduler.command.record_download import RecordCopy, follow
from kscheduler.command.scheduler_endpoint import SchedulerEndpoint
from kscheduler.command.served import NO_RECORD
from kscheduler.errors import ConfigError
from kscheduler.record.background import BackgroundWriter
from kscheduler.record.endpoint import RecordEndpoint, Writes
from kscheduler.record.entries import Header, Synced
from kscheduler.record.recorder import part_of
from kscheduler.replay.recording import RecordedScheduler
from kscheduler.serving.absent import absent
from kscheduler.serving.listener import Handler
from tests.command.serving import Serving
from tests.replay.recorded_run import busy, recorded
from tests.support.clocks import ManualClock

pytestmark = pytest.mark.usefixtures("logging_restored")

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> RecordedScheduler:
    """A scheduler after its work, with a record of several parts."""
    scheduler = recorded(tmp_path_factory.mktemp("volume") / "run.zst", busy, part_bytes=4096)
    assert len(scheduler.parts) > 2
    return scheduler


def handlers_of(writer: Writes, started: float) -> dict[str, Handler]:
    endpoint = RecordEndpoint(writer, started)
    return {RECORD_PATH: endpoint.answer_list, f"{RECORD_PATH}/{{number}}": endpoint.answer_part}


@contextmanager
def serving(handlers: dict[str, Handler], directory: Path) -> Iterator[Serving]:
    directory.mkdir(exist_ok=True)
    server = Serving(handlers, directory)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(scheduler: RecordedScheduler, tmp_path: Path) -> Iterator[Serving]:
    with serving(handlers_of(scheduler.writer, scheduler.started), tmp_path / "certificates") as server:
        yield server


def test_without_record_its_modules_are_not_imported() -> None:
    code = (
        "import sys, kscheduler.command.running, kscheduler.serving.server, kscheduler.serving.absent\n"
        "print([name for name in sys.modules if name.startswith(('kscheduler.record', 'kscheduler.replay'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "copy.zst"


def answer_of(capsys: Capture, server: Serving, out: Path, *flags: str) -> tuple[int, str, str]:
    code = main(["record", "--from", server.url, "--out", str(out), *flags])
    printed, errors = capsys.readouterr()
    assert "Traceback" not in printed + errors
    return code, printed, errors


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.parent.iterdir()}


# --- what is downloaded ---------------------------------------------------------------------------------------------


def test_all_parts_are_downloaded_and_every_decision_is_made_again(
    scheduler: RecordedScheduler, server: Serving, token: str, out: Path, capsys: Capture
) -> None:
    code, printed, errors = answer_of(capsys, server, out, token)
    assert (code, errors) == (0, "")
    assert re.match(
        r"downloaded \d+ KiB of the record that began at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC\n", printed
    )
    assert f"read by `kscheduler replay {out}`" in printed
    for number, path in enumerate(scheduler.parts, start=1):
        assert part_of(out, number).read_bytes() == path.read_bytes()
    assert main(["replay", str(out)]) == 0
    assert "decisions equal" in capsys.readouterr().out


def test_what_was_downloaded_is_simulated(server: Serving, token: str, out: Path, capsys: Capture) -> None:
    assert answer_of(capsys, server, out, token)[0] == 0
    report = out.parent / "report.json"
    assert main(["simulate", "--quiet", "--record", str(out), "--output", str(report)]) == 0
    assert json.loads(report.read_bytes())["pods"]["placed"] > 0


def test_a_second_call_downloads_nothing_twice(server: Serving, token: str, out: Path, capsys: Capture) -> None:
    answer_of(capsys, server, out, token)
    before = contents(out)
    code, printed, _ = answer_of(capsys, server, out, token)
    assert code == 0
    assert printed.startswith("downloaded 0 KiB of the record")
    assert contents(out) == before


@pytest.mark.parametrize("left", [0, 1, 17, 2_000, -1])
def test_a_second_call_goes_on_where_the_first_was_killed(
    server: Serving, token: str, out: Path, capsys: Capture, left: int
) -> None:
    answer_of(capsys, server, out, token)
    whole = contents(out)
    for number in range(3, len(whole) + 1):
        part_of(out, number).unlink()
    for each in (out, part_of(out, 2)):
        each.write_bytes(whole[each.name][:left])
    assert answer_of(capsys, server, out, token)[0] == 0
    assert contents(out) == whole


class Steps(threading.Event):
    """An event that lets something happen in each pause, and is set after the last one."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        super().__init__()
        self._steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._steps:
            self.set()
        else:
            self._steps.pop(0)()
        return self.is_set()


def begin(writer: BackgroundWriter, started: float = 5.0) -> None:
    writer.write(Header(2, "0.1.0", started, writer.number))
    writer.write(Synced(0.0))
    flush(writer)


def flush(writer: BackgroundWriter) -> None:
    writer.flush()
    writer.settle()


def next_part(writer: BackgroundWriter) -> None:
    writer.next_part()
    begin(writer)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[BackgroundWriter]:
    writer = BackgroundWriter(tmp_path / "run.zst", keep_parts=2)
    begin(writer)
    yield writer
    writer.close()


def copy_of(server: Serving, token: str, out: Path) -> RecordCopy:
    options = RecordOptions(str(out), server=server.url, token_file=token.removeprefix("--token-file="))
    return RecordCopy(SchedulerEndpoint(options, ManualClock()), out)


def test_what_is_added_is_followed(writer: BackgroundWriter, tmp_path: Path, token: str, out: Path) -> None:
    def add() -> None:
        writer.write(Synced(1.0))
        flush(writer)

    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as server:
        copy = copy_of(server, token, out)
        copy.update()
        follow(copy, Steps(add, lambda: next_part(writer), add), None, ManualClock())
        copy.update()
    kept = writer.kept()
    assert contents(out) == {part_of(out, each.number).name: each.path.read_bytes()[: each.bytes] for each in kept}
    assert len(kept) == 2


def test_following_outlasts_a_scheduler_that_does_not_answer(
    writer: BackgroundWriter, tmp_path: Path, token: str, out: Path, capsys: Capture
) -> None:
    is_down = False
    endpoint = RecordEndpoint(writer, 5.0)

    async def answer(request: web.Request) -> web.StreamResponse:
        if is_down:
            raise web.HTTPServiceUnavailable(text="not now")
        return await endpoint.answer_list(request)

    def fall() -> None:
        nonlocal is_down
        is_down = True

    def rise() -> None:
        nonlocal is_down
        is_down = False
        next_part(writer)

    handlers = {**handlers_of(writer, 5.0), RECORD_PATH: answer}
    with serving(handlers, tmp_path / "certificates") as server:
        copy = copy_of(server, token, out)
        copy.update()
        follow(copy, Steps(fall, bool, rise), None, ManualClock())
    assert sorted(contents(out)) == ["copy.2.zst", "copy.zst"]
    assert capsys.readouterr().err.count("not now (503); trying again") == 1


def test_following_ends_with_the_record(writer: BackgroundWriter, tmp_path: Path, token: str, out: Path) -> None:
    def fail() -> None:
        writer.failure = "the disk is too slow"

    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as server:
        copy = copy_of(server, token, out)
        copy.update()
        follow(copy, Steps(bool, fail, lambda: pytest.fail("asked again")), None, ManualClock())
    assert copy.listing.failure == "the disk is too slow"


def test_following_ends_after_its_duration(writer: BackgroundWriter, tmp_path: Path, token: str, out: Path) -> None:
    clock = ManualClock()
    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as server:
        copy = copy_of(server, token, out)
        copy.update()
        steps = Steps(lambda: clock.advance(30.0), lambda: clock.advance(31.0), lambda: pytest.fail("asked again"))
        follow(copy, steps, clock.now() + 60.0, clock)


# --- what is refused ------------------------------------------------------------------------------------------------


def test_who_has_no_right_learns_which_one_is_missing(
    server: Serving, tmp_path: Path, out: Path, capsys: Capture
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("stranger")
    for flags in ((), (f"--token-file={wrong}",)):
        code, printed, errors = answer_of(capsys, server, out, *flags)
        assert (code, printed) == (1, "")
        assert "forbidden: that is not yours. Show credentials that may get /record: --token-file FILE" in errors
    assert contents(out) == {}


def test_a_scheduler_that_does_not_record_says_so(tmp_path: Path, token: str, out: Path, capsys: Capture) -> None:
    with serving({RECORD_PATH: absent(NO_RECORD)}, tmp_path / "certificates") as server:
        code, _, errors = answer_of(capsys, server, out, token)
    assert code == 1
    assert "this scheduler does not record itself: it was started without --record (404)" in errors
    assert contents(out) == {}


def test_another_server_is_recognised(tmp_path: Path, token: str, out: Path, capsys: Capture) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"parts": 3})

    with serving({RECORD_PATH: answer}, tmp_path / "certificates") as server:
        code, _, errors = answer_of(capsys, server, out, token)
    assert code == 1
    assert "expected the parts of a record, got '{\"parts\": 3}'" in errors


def test_an_answer_that_breaks_off_is_reported_and_continued(
    scheduler: RecordedScheduler, tmp_path: Path, token: str, out: Path, capsys: Capture
) -> None:
    handlers = handlers_of(scheduler.writer, scheduler.started)
    part = f"{RECORD_PATH}/{{number}}"
    is_broken = True

    async def answer(request: web.Request) -> web.StreamResponse:
        """Answer as the scheduler does, or send only the first 700 bytes."""
        if not is_broken:
            return await handlers[part](request)
        path = scheduler.writer.kept()[0].path
        size = path.stat().st_size
        headers = {"Record-Started": repr(scheduler.started), "Content-Range": f"bytes 0-{size - 1}/{size}"}
        response = web.StreamResponse(status=206, headers=headers)
        response.content_length = size
        await response.prepare(request)
        await response.write(path.read_bytes()[:700])
        assert request.transport is not None
        request.transport.close()
        return response

    with serving({**handlers, part: answer}, tmp_path / "certificates") as server:
        code, _, errors = answer_of(capsys, server, out, token)
        assert code == 1
        assert "bytes of part 1, got 700: the connection broke, and the same command goes on from there" in errors
        assert out.stat().st_size == 700
        is_broken = False
        assert answer_of(capsys, server, out, token)[0] == 0
    assert out.read_bytes() == scheduler.parts[0].read_bytes()


def test_another_record_is_not_mixed_with_the_one_begun(
    scheduler: RecordedScheduler,
    server: Serving,
    writer: BackgroundWriter,
    tmp_path: Path,
    token: str,
    out: Path,
    capsys: Capture,
) -> None:
    answer_of(capsys, server, out, token)
    before = contents(out)
    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as other:
        code, _, errors = answer_of(capsys, other, out, token)
    assert code == 2
    assert f"{out}: expected the record that {other.url} began at 1970-01-01 00:00:05.000 UTC, got one that" in errors
    assert "nothing was overwritten: give another --out" in errors
    assert contents(out) == before


def test_a_scheduler_that_restarted_in_between_is_noticed(
    writer: BackgroundWriter, tmp_path: Path, token: str, out: Path
) -> None:
    later = RecordEndpoint(writer, 6.0)  # answers after the parts were listed
    handlers = {**handlers_of(writer, 5.0), f"{RECORD_PATH}/{{number}}": later.answer_part}
    with serving(handlers, tmp_path / "certificates") as server, pytest.raises(ConfigError) as caught:
        copy_of(server, token, out).update()
    assert "got one of another record: was the scheduler restarted?" in str(caught.value)
    assert contents(out) == {}


@pytest.mark.parametrize("content", [b"a letter\n", b"\x28\xb5\x2f\xfd and more", bytes(1_000_000)])
def test_a_file_that_is_no_copy_is_left_alone(
    server: Serving, token: str, out: Path, capsys: Capture, content: bytes
) -> None:
    out.write_bytes(content)
    code, _, errors = answer_of(capsys, server, out, token)
    assert code == 2
    assert f"{out}: expected a" in errors
    assert "nothing was overwritten: give another --out" in errors
    assert contents(out) == {out.name: content}


def test_parts_that_were_removed_are_named(
    writer: BackgroundWriter, tmp_path: Path, token: str, out: Path, capsys: Capture
) -> None:
    for _ in range(3):
        next_part(writer)
    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as server:
        code, _, errors = answer_of(capsys, server, out, token)
    assert code == 0
    assert sorted(contents(out)) == ["copy.3.zst", "copy.4.zst"]
    assert "parts from 1 to 2 were removed before all of it was downloaded (--record-keep-parts)" in errors


def test_a_part_that_is_removed_while_the_others_are_downloaded_is_named(
    writer: BackgroundWriter, tmp_path: Path, token: str, out: Path, capsys: Capture
) -> None:
    next_part(writer)
    endpoint = RecordEndpoint(writer, 5.0)

    async def list_and_remove(request: web.Request) -> web.StreamResponse:
        answer = await endpoint.answer_list(request)
        next_part(writer)
        return answer

    handlers = {**handlers_of(writer, 5.0), RECORD_PATH: list_and_remove}
    with serving(handlers, tmp_path / "certificates") as server:
        code, _, errors = answer_of(capsys, server, out, token)
    assert code == 0
    assert sorted(contents(out)) == ["copy.2.zst"]
    assert "part 1 was removed before all of it was downloaded (--record-keep-parts)" in errors


def test_a_part_that_was_removed_between_two_calls_is_named_if_its_end_is_missing(
    writer: BackgroundWriter, tmp_path: Path, token: str, out: Path, capsys: Capture
) -> None:
    with serving(handlers_of(writer, 5.0), tmp_path / "certificates") as server:
        assert answer_of(capsys, server, out, token)[2] == ""
        writer.write(Synced(1.0))
        for _ in range(2):
            next_part(writer)
        _, _, errors = answer_of(capsys, server, out, token)
    assert sorted(contents(out)) == ["copy.2.zst", "copy.3.zst", "copy.zst"]
    assert "part 1 was removed before all of it was downloaded" in errors


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--from", "localhost:10259"], "expected a URL such as https://127.0.0.1:10259"),
        (["--from", "https://h", "--keep-parts", "3"], "--keep-parts: expected no --from with it"),
        (["--from", "https://h", "--part-size", "3"], "--part-size: expected no --from with it"),
        (["--from", "https://h", "--config", "f"], "--config: expected no --from with it"),
        (["--from", "https://h", "--duration", "5s"], "--duration: expected with --follow"),
        (["--follow"], "--follow: expected only with --from"),
        (["--token-file", "f"], "--token-file: expected only with --from"),
        (["--insecure-skip-tls-verify"], "--insecure-skip-tls-verify: expected only with --from"),
        (["--from", "https://h", "--token-file", "/does/not/exist"], "--token-file /does/not/exist: cannot be read"),
        (["--from", "https://h", "--out", "/does/not/exist"], "expected a directory /does/not, there is none"),
    ],
)
def test_wrong_flags_are_refused(out: Path, capsys: Capture, flags: list[str], words: str) -> None:
    assert main(["record", "--out", str(out), *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(server: Serving, token: str, out: Path, capsys: Capture) -> None:
    part_of(out, 2).mkdir()
    code, _, errors = answer_of(capsys, server, out, token)
    assert code == 2
    assert f"{part_of(out, 2)}: cannot be written: Is a directory" in errors
