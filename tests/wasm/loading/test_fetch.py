"""A guest's bytes against its digest, and what counts as new."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.fetch import SETTLED_S, Fetcher, LoadError
from tests.wasm.loading.servers import Request, saying, serving, whole


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_a_file_with_the_pinned_digest_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    fetched = await Fetcher(SecretURL(f"file://{path}"), sha256=digest(b"guest")).fetch()
    assert (fetched.data, fetched.sha256) == (b"guest", digest(b"guest"))


async def test_a_relative_path_is_taken_from_where_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "g.wasm").write_bytes(b"guest")
    monkeypatch.chdir(tmp_path)
    assert (await Fetcher(SecretURL("file://g.wasm")).fetch()).data == b"guest"


async def test_another_digest_than_the_pinned_one_is_refused_with_both(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"other")
    expected, got = digest(b"guest"), digest(b"other")
    with pytest.raises(LoadError) as caught:
        await Fetcher(SecretURL(f"file://{path}"), sha256=expected).fetch()
    start = f"wasm: error reading guestURL file://{path}: "
    assert str(caught.value) == f"{start}expected sha256 {expected}, got {got} (5 bytes)"
    async with serving(saying(whole(b"other"))) as server:
        with pytest.raises(LoadError, match=f"expected sha256 {expected}, got {got}"):
            await Fetcher(SecretURL(server.url), sha256=expected).fetch()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "wasm: guestURL is required"),
        ("a.wasm", "wasm: error reading guestURL a.wasm: invalid URL: a.wasm (for a file, write file://a.wasm)"),
        ("oci://a/b", "wasm: error reading guestURL oci://a/b: unsupported URL scheme: oci"),
    ],
)
def test_a_url_that_can_never_work_is_refused_at_once(url: str, message: str) -> None:
    with pytest.raises(LoadError) as caught:
        Fetcher(SecretURL(url))
    assert str(caught.value) == message


async def test_a_fault_does_not_show_the_password() -> None:
    async with serving(saying(whole(b"", "403 No"))) as server:
        fetcher = Fetcher(SecretURL(server.url.replace("//", "//me:secret@")))
        with pytest.raises(LoadError, match="received 403 status code") as caught:
            await fetcher.fetch()
        assert "secret" not in str(caught.value)
        assert server.requests[0].headers["authorization"].startswith("Basic ")


async def test_a_file_that_was_not_touched_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    fetcher = Fetcher(SecretURL(f"file://{path}"), wall=lambda: path.stat().st_mtime + SETTLED_S + 1)
    first = await fetcher.fetch()
    assert await fetcher.fetch_if_changed(first.mark) is None
    os.utime(path, (1, 1))
    again = await fetcher.fetch_if_changed(first.mark)
    assert again is not None
    assert again.sha256 == first.sha256


async def test_a_file_written_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "g.wasm"
    path.write_bytes(b"guest")
    state = path.stat()
    fetcher = Fetcher(SecretURL(f"file://{path}"), wall=lambda: state.st_mtime + 0.5)
    first = await fetcher.fetch()
    path.write_bytes(b"other")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # as when both fall into one tick
    again = await fetcher.fetch_if_changed(first.mark)
    assert again is not None
    assert again.data == b"other"


async def test_a_server_that_knows_versions_is_asked_for_new_ones_only() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_known = request.headers.get("if-none-match") == '"1"'
        writer.write(whole(b"", "304 Not Modified") if is_known else whole(b"guest", etag='"1"'))

    async with serving(answer) as server:
        fetcher = Fetcher(SecretURL(server.url))
        first = await fetcher.fetch()
        assert await fetcher.fetch_if_changed(first.mark) is None


async def test_what_a_server_without_versions_sends_again_is_compared_by_digest() -> None:
    async with serving(saying(whole(b"guest"))) as server:
        fetcher = Fetcher(SecretURL(server.url))
        first = await fetcher.fetch()
        again = await fetcher.fetch_if_changed(first.mark)
        assert again is not None
        assert again.sha256 == first.sha256
