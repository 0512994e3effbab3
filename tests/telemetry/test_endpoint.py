"""An HTTP server outside the cluster's API, over real connections: honest, slow, dying and lying."""

from __future__ import annotations

import gzip
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.metric_policy import Endpoint
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.telemetry.endpoint import LONG_QUESTION, Answer, EndpointClient
from kscheduler.telemetry.source import SourceError
from tests.support.certificates import Authority
from tests.telemetry.http_server import (
    Serve,
    answering,
    dripping,
    flooding,
    hanging,
    http_server,
    saying,
    vanishing,
)

LIMIT = 1 << 20


async def ask(
    url: str, path: str = "/api", timeout_s: float = 5.0, query: dict[str, str] | None = None, **fields: Any
) -> Answer:
    client = EndpointClient(Endpoint(url=SecretURL(url), **fields), timeout_s)
    try:
        return await client.ask(path, query or {}, LIMIT)
    finally:
        await client.close()


async def refused(serve: Serve, timeout_s: float = 5.0) -> str:
    """The text of the error that it comes to."""
    async with http_server(serve) as server:
        with pytest.raises(SourceError) as caught:
            await ask(server.url, timeout_s=timeout_s)
    return str(caught.value).replace(server.url, "URL")


async def test_an_honest_answer_comes_as_it_is() -> None:
    async with http_server(answering(b"content", status=404)) as server:
        assert await ask(server.url + "/prefix/", query={"query": "up == 1"}) == Answer(404, b"content")
        [request] = server.requests
        assert (request.verb, request.target) == ("GET", "/prefix/api?query=up+%3D%3D+1")


async def test_a_long_question_is_posted() -> None:
    async with http_server(answering(b"{}")) as server:
        await ask(server.url, query={"query": "x" * (LONG_QUESTION + 1)})
        [request] = server.requests
        assert (request.verb, request.target) == ("POST", "/api")
        assert request.body == b"query=" + b"x" * (LONG_QUESTION + 1)


@pytest.mark.parametrize("serve", [hanging, dripping], ids=["hangs", "drips"])
async def test_the_time_of_an_answer_is_bounded(serve: Serve) -> None:
    assert await refused(serve, timeout_s=0.2) == "URL: no answer within 0.2 s"


async def test_the_size_of_an_answer_is_bounded() -> None:
    assert await refused(flooding) == f"URL: expected an answer of at most {LIMIT} bytes, got more"


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    recorded = await refused(answering(bomb, headers="Content-Encoding: gzip\r\n"))
    assert recorded == "URL: expected an answer as it is, got a compressed one"


async def test_a_redirect_is_not_followed() -> None:
    async with http_server(answering(b"caught")) as other:
        recorded = await refused(answering(b"", status=302, headers=f"Location: {other.url}/\r\n"))
        assert recorded == "URL: expected an answer, got a redirect, which is not followed"
        assert not other.requests


@pytest.mark.parametrize(
    "serve",
    [
        vanishing,
        saying(b""),
        saying(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        saying(b"HTTP/1.1 banana\r\n\r\n"),
        saying(b"\0" * 100),
    ],
    ids=["half", "nothing", "ssh", "no status", "zeros"],
)
async def test_what_is_no_http_is_an_error(serve: Serve) -> None:
    assert (await refused(serve)).startswith("URL: ")


async def test_nobody_there_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"^http://127\.0\.0\.1:1: Connection refused$"):
        await ask("http://127.0.0.1:1")


async def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with http_server(answering(b"{}")) as server:
        client = EndpointClient(Endpoint(url=SecretURL(server.url), bearer_token_file=str(token)), 5.0)
        for secret in ("first\n", "second\n"):
            token.write_text(secret)
            await client.ask("/api", {}, LIMIT)
        await client.close()
        assert [request.headers["authorization"] for request in server.requests] == ["Bearer first", "Bearer second"]


async def test_headers_may_come_from_files_which_are_read_again(tmp_path: Path) -> None:
    key = tmp_path / "key"
    async with http_server(answering(b"{}")) as server:
        client = EndpointClient(Endpoint(url=SecretURL(server.url), header_files={"X-Key": str(key)}), 5.0)
        for secret in ("first\n", "second\n"):
            key.write_text(secret)
            await client.ask("/api", {}, LIMIT)
        await client.close()
        assert [request.headers["x-key"] for request in server.requests] == ["first", "second"]


@pytest.mark.parametrize("content", [None, b"", b"two\nlines", b"\xff\xfe", b"a\r\nX-Injected: yes"])
async def test_a_token_that_cannot_be_used_is_never_sent_nor_shown(tmp_path: Path, content: bytes | None) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    async with http_server(answering(b"{}")) as server:
        with pytest.raises(SourceError) as caught:
            await ask(server.url, bearer_token_file=str(token))
        assert not server.requests
    assert "Injected" not in str(caught.value)
    assert str(caught.value).startswith(f"{token}: expected ")


async def test_name_and_password_and_headers_are_sent(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    async with http_server(answering(b"{}")) as server:
        await ask(
            server.url,
            username=Secret("me"),
            password_file=str(tmp_path / "password"),
            headers={"X-Scope-OrgID": Secret("7")},
        )
        [request] = server.requests
        assert request.headers["authorization"] == "Basic bWU6c2VjcmV0"
        assert request.headers["x-scope-orgid"] == "7"


async def test_a_password_in_the_url_is_not_shown() -> None:
    with pytest.raises(SourceError) as caught:
        await ask("http://me:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "prometheus:9090", "ftp://host", "http://", "http://[::1", "http://host:port"])
def test_a_url_that_cannot_work_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="expected an http:// or https:// URL"):
        EndpointClient(Endpoint(url=SecretURL(url)), 5.0)


# --- TLS ---------------------------------------------------------------------------------------------------------


def trusting(authority: Authority, directory: Path) -> dict[str, Any]:
    (directory / "ca.crt").write_text(authority.pem)
    certificate, key = authority.issue(directory, "client")
    return {"ca_file": str(directory / "ca.crt"), "cert_file": str(certificate), "key_file": str(key)}


async def test_a_private_authority_and_a_client_certificate_let_us_in(tmp_path: Path) -> None:
    authority = Authority()
    async with http_server(answering(b"{}"), authority.server_context(tmp_path)) as server:
        assert await ask(server.url, **trusting(authority, tmp_path)) == Answer(200, b"{}")


async def test_a_server_of_another_authority_is_refused(tmp_path: Path) -> None:
    ours, theirs = Authority(), Authority()
    async with http_server(answering(b"{}"), theirs.server_context(tmp_path)) as server:
        with pytest.raises(SourceError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            await ask(server.url, **trusting(ours, tmp_path))
        assert not server.requests


async def test_certificates_that_were_replaced_are_read_again(tmp_path: Path) -> None:
    old, new = Authority(), Authority()
    fields = trusting(old, tmp_path)
    async with http_server(answering(b"{}"), new.server_context(tmp_path)) as server:
        client = EndpointClient(Endpoint(url=SecretURL(server.url), **fields), 5.0)
        with pytest.raises(SourceError):
            await client.ask("/api", {}, LIMIT)
        renewed = tmp_path / "renewed"
        renewed.mkdir()
        for field, source in trusting(new, renewed).items():
            os.replace(source, fields[field])
        assert await client.ask("/api", {}, LIMIT) == Answer(200, b"{}")
        await client.close()


async def test_verification_can_be_left_out(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority().issue(tmp_path, "server"))
    async with http_server(answering(b"{}"), context) as server:
        assert await ask(server.url, insecure_skip_verify=True) == Answer(200, b"{}")


async def test_a_certificate_for_another_name_passes_under_that_name_only(tmp_path: Path) -> None:
    authority = Authority()
    fields = trusting(authority, tmp_path)
    async with http_server(answering(b"{}"), authority.server_context(tmp_path)) as server:
        with pytest.raises(SourceError):
            await ask(server.url, **fields, server_name="elsewhere.example")


@pytest.mark.parametrize("content", [None, b"no certificate"])
async def test_an_authority_that_cannot_be_read_is_an_error_that_names_the_file(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SourceError, match=r"caFile .*ca\.crt: expected certificates in PEM"):
        await ask("https://127.0.0.1:1", ca_file=str(file))
