"""Downloads from servers that are honest, slow, dying, lying and hostile: each ends soon, and says why."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.loading.download import Downloaded, DownloadLimits, Validators, download
from kscheduler.wasm.loading.source import HTTPSource, SourceError
from tests.support.certificates import Authority
from tests.wasm.loading.servers import Answer, Request, by_path, saying, serving, whole

GUEST = bytes(range(256)) * 40
LIMITS = DownloadLimits(max_bytes=20_000, whole_s=5.0, silence_s=2.0, connect_s=2.0)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


async def fetch(answer: Answer, limits: DownloadLimits = LIMITS, path: str = "/g.wasm") -> bytes:
    async with serving(answer) as server:
        found = await download(HTTPSource(SecretURL(server.url + path)), limits)
    assert found.data is not None
    return found.data


async def fault(answer: Answer, limits: DownloadLimits = LIMITS, path: str = "/g.wasm") -> str:
    with pytest.raises(SourceError) as caught:
        await fetch(answer, limits, path)
    return str(caught.value)


# --- honest servers ---


async def test_the_body_is_the_guest() -> None:
    assert await fetch(saying(whole(GUEST))) == GUEST


async def test_a_body_in_chunks_and_one_without_a_length_are_taken() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nguest\r\n0\r\n\r\n"
    assert await fetch(saying(chunked)) == b"guest"
    assert await fetch(saying(whole(GUEST, content_length=""))) == GUEST


async def test_a_gzipped_body_is_unpacked() -> None:
    assert await fetch(saying(whole(gzip.compress(GUEST), content_encoding="gzip"))) == GUEST


async def test_a_signed_url_is_asked_for_as_it_is_written() -> None:
    async with serving(saying(whole(GUEST))) as server:
        await download(HTTPSource(SecretURL(f"{server.url}/a%2Fb?sig=%2B%2b+x~")), LIMITS)
        assert server.requests[0].path == "/a%2Fb?sig=%2B%2b+x~"


async def test_redirects_are_followed_up_to_the_limit() -> None:
    hops = {f"/{n}": whole(b"", "302 Found", location=f"/{n + 1}") for n in range(5)}
    assert await fetch(by_path({**hops, "/5": whole(GUEST)}), path="/0") == GUEST


async def test_what_a_server_says_about_versions_is_remembered_and_asked_with() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_known = request.headers.get("if-none-match") == '"1"'
        writer.write(whole(b"", "304 Not Modified") if is_known else whole(GUEST, etag='"1"', last_modified="then"))

    async with serving(answer) as server:
        source = HTTPSource(SecretURL(server.url))
        first = await download(source, LIMITS)
        assert first == Downloaded(GUEST, Validators('"1"', "then"))
        assert await download(source, LIMITS, first.validators) == Downloaded(None, first.validators)
        assert server.requests[1].headers["if-modified-since"] == "then"


def tls_server(directory: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context, and the certificate that vouches for it."""
    authority = Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(directory, "server"))
    path = directory / "ca.crt"
    path.write_text(authority.pem)
    return context, path


async def test_https_takes_a_certificate_that_somebody_known_vouches_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, authority = tls_server(tmp_path)
    async with serving(saying(whole(GUEST)), context) as server:
        with pytest.raises(SourceError, match="certificate"):
            await download(HTTPSource(SecretURL(server.url)), LIMITS)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert (await download(HTTPSource(SecretURL(server.url)), LIMITS)).data == GUEST


# --- wrong answers ---


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "204 No Content", "206 Partial Content", "304 Same"])
async def test_only_200_is_an_answer(status: str) -> None:
    async with serving(saying(whole(b"", status))) as server:
        with pytest.raises(SourceError) as caught:
            await download(HTTPSource(SecretURL(server.url + "/g.wasm")), LIMITS)
    assert str(caught.value) == f'received {status[:3]} status code from "{server.url}/g.wasm"'


async def test_a_truncated_body_is_no_guest() -> None:
    assert "the body ended early" in await fault(saying(whole(GUEST, content_length="20000")))
    assert "the body ended early" in await fault(
        saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nguest")
    )


async def test_a_body_longer_than_announced_is_no_guest() -> None:
    text = await fault(saying(whole(GUEST, content_length="5")))
    assert "Bad status line" in text
    assert len(text) < 400


async def test_a_body_that_announces_too_much_is_not_read() -> None:
    answer = saying(whole(b"", content_length="20001"), holding=True)
    assert await fault(answer) == "expected at most 20000 bytes, got an announcement of 20001"


async def test_a_body_that_does_not_end_is_cut_off() -> None:
    answer = saying(whole(b"", content_length=""), *[bytes(5000)] * 1000)
    assert await fault(answer) == "expected at most 20000 bytes, got more"


async def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    limits = replace(LIMITS, max_bytes=len(bomb) + 1)
    answer = saying(whole(bomb, content_encoding="gzip"))
    assert await fault(answer, limits) == f"expected at most {len(bomb) + 1} bytes unpacked, got more"


async def test_what_claims_to_be_gzip_must_be_all_of_one() -> None:
    packed = gzip.compress(GUEST)
    assert "expected a gzip file, as the server says" in await fault(saying(whole(GUEST, content_encoding="gzip")))
    cut = saying(whole(packed[:-9], content_encoding="gzip"))
    assert "expected a whole gzip file" in await fault(cut)
    assert 'expected the content encoding "gzip" or none, got "br"' in await fault(
        saying(whole(packed, content_encoding="br"))
    )


async def test_nonsense_is_no_answer() -> None:
    assert await fault(saying(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"))
    assert await fault(saying(b""))


# --- redirects ---


async def test_a_loop_of_redirects_ends() -> None:
    text = await fault(saying(whole(b"", "301 Moved", location="/again")))
    assert text.startswith("expected at most 5 redirects, got more, the last to http://127.0.0.1:")


async def test_https_never_leads_to_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, authority = tls_server(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    async with (
        serving(saying(whole(GUEST))) as plain,
        serving(saying(whole(b"", "302 Found", location=f"{plain.url}/g")), context) as server,
    ):
        with pytest.raises(SourceError, match=r"^expected https to stay https, got a redirect from https:.* to http:"):
            await download(HTTPSource(SecretURL(server.url), allow_insecure=True), LIMITS)
        assert plain.requests == []


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://a.example/g", "expected https, got plain http from a.example"),
        ("file:///etc/passwd", "expected a redirect to https, got one to file:///etc/passwd"),
        ("gopher://a/", "expected a redirect to https, got one to gopher://a/"),
    ],
)
async def test_a_redirect_is_judged_as_a_url_of_the_configuration(location: str, message: str) -> None:
    assert (await fault(saying(whole(b"", "307 Moved", location=location)))).startswith(message)


async def test_a_redirect_without_a_target_is_a_status_like_others() -> None:
    assert (await fault(saying(whole(b"", "302 Found")))).startswith("received 302 status code")


# --- time ---


async def test_a_server_that_says_nothing_is_left() -> None:
    limits = replace(LIMITS, silence_s=0.1)
    assert "no answer" in await fault(saying(holding=True), limits)
    assert "no answer" in await fault(saying(whole(b"g", content_length="9"), holding=True), limits)


async def test_a_server_that_drips_is_left_for_its_pace() -> None:
    limits = replace(LIMITS, grace_s=0.1)
    answer = saying(whole(b"", content_length="1000"), *[b"g"] * 1000, pause_s=0.02)
    assert (await fault(answer, limits)).startswith("expected at least 4096 bytes a second, got ")


async def test_the_whole_has_a_limit_redirects_included() -> None:
    limits = replace(LIMITS, whole_s=0.2, min_bytes_per_s=0)
    answer = saying(whole(b"", content_length="1000"), *[b"g"] * 1000, pause_s=0.02)
    assert await fault(answer, limits) == "no complete answer within 0.2 s"


async def test_nobody_listening_is_reported() -> None:
    async with serving(saying()) as server:
        url = server.url
    with pytest.raises(SourceError, match="Cannot connect"):
        await download(HTTPSource(SecretURL(url)), LIMITS)


# --- proxies ---


async def test_the_proxy_of_the_environment_is_asked_and_no_proxy_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(saying(whole(GUEST))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        source = HTTPSource(SecretURL("http://a.example/g.wasm"), allow_insecure=True)
        assert (await download(source, LIMITS)).data == GUEST
        assert proxy.requests[0].path == "http://a.example/g.wasm"
        monkeypatch.setenv("no_proxy", "a.invalid")
        with pytest.raises(SourceError, match="Cannot connect"):
            await download(HTTPSource(SecretURL("http://a.invalid/g.wasm"), allow_insecure=True), LIMITS)
        assert len(proxy.requests) == 1


async def test_this_machine_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert await fetch(saying(whole(GUEST))) == GUEST
