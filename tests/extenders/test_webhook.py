"""One endpoint over real connections: what honest, slow, dying and lying servers come to."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.duration import Duration
from kscheduler.config.types import Extender, ExtenderTLSConfig
from kscheduler.errors import ConfigError, PluginError
from kscheduler.extenders.webhook import MIN_ANSWER_LIMIT, Webhook
from kscheduler.input.redaction import Secret, SecretURL
from tests.support.certificates import Authority

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Its URL; `serve` has each connection after the request was read."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/prefix/"
    finally:
        listening.close()


async def ask(url: str, timeout_s: float = 5.0, question: bytes = b"{}", **fields: Any) -> bytes:
    config = Extender(url_prefix=SecretURL(url), http_timeout=Duration(int(timeout_s * 1e9)), **fields)
    webhook = Webhook(config, "extenders[0]")
    try:
        return await webhook.ask("filter", question)
    finally:
        await webhook.close()


def saying(*parts: bytes, pause_s: float = 0.0) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return serve


def whole(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """An answer that ends its connection, as the servers here do: a client must not send its next question there."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "nonsense"])
async def test_the_body_is_the_answer_whatever_its_content_type(kind: str) -> None:
    async with server(saying(whole(b'{"a": 1}', kind=kind))) as url:
        assert json.loads(await ask(url)) == {"a": 1}


@pytest.mark.parametrize("status", ["500 Oops", "404 Not Found", "201 Created", "302 Found"])
async def test_any_status_but_200_is_a_fault_in_kube_schedulers_words(status: str) -> None:
    async with server(saying(whole(b"{}", status))) as url:
        with pytest.raises(PluginError, match=rf"^failed filter with extender at URL {url}filter, code {status[:3]}$"):
            await ask(url)


async def test_a_server_that_hangs_is_given_up_in_time() -> None:
    async with server(saying(b"", pause_s=30.0)) as url:
        with pytest.raises(PluginError, match=r"no answer within 0.05 s"):
            await ask(url, 0.05)


async def test_a_server_that_drips_is_given_up_in_time() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    async with server(saying(head, *[b"x"] * 1000, pause_s=0.01)) as url:
        with pytest.raises(PluginError, match=r"no answer within 0.1 s"):
            await ask(url, 0.1)


async def test_a_server_that_dies_in_the_middle_is_a_fault() -> None:
    async with server(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")) as url:
        with pytest.raises(PluginError, match=rf"extender at URL {url}filter: "):
            await ask(url)


async def test_nobody_there_is_a_fault() -> None:
    async with server(saying(b"")) as url:
        pass
    with pytest.raises(PluginError, match=rf"^extender at URL {url}filter: Connection refused$"):
        await ask(url)


async def test_no_http_is_a_fault() -> None:
    async with server(saying(b"hello\r\n\r\n")) as url:
        with pytest.raises(PluginError, match=rf"extender at URL {url}filter: "):
            await ask(url)


async def test_an_answer_that_is_far_too_large_is_not_read_to_its_end() -> None:
    async with server(saying(whole(b"x" * (10 << 20)))) as url:
        with pytest.raises(PluginError, match=f"expected an answer of at most {MIN_ANSWER_LIMIT} bytes, got more"):
            await ask(url)


async def test_a_large_question_may_have_a_large_answer() -> None:
    async with server(saying(whole(b"x" * (MIN_ANSWER_LIMIT * 2)))) as url:
        assert len(await ask(url, question=b"q" * MIN_ANSWER_LIMIT)) == MIN_ANSWER_LIMIT * 2


# --- TLS ----------------------------------------------------------------------------------------------------------


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


async def test_a_client_certificate_is_presented_from_files_and_from_the_configuration(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue(tmp_path, "me")
    ca = base64.b64encode(authority.pem.encode()).decode()
    async with server(saying(whole(b"{}")), authority.server_context(tmp_path)) as url:
        from_files = ExtenderTLSConfig(ca_data=ca, cert_file=str(certificate), key_file=str(key))
        assert await ask(url, enable_https=True, tls_config=from_files) == b"{}"
        from_data = ExtenderTLSConfig(ca_data=ca, cert_data=encoded(certificate), key_data=Secret(encoded(key)))
        assert await ask(url, enable_https=True, tls_config=from_data) == b"{}"


async def test_certificates_that_are_renewed_in_their_files_need_no_restart(tmp_path: Path) -> None:
    before, after = Authority("before"), Authority("after")
    ca_file = tmp_path / "ca.crt"
    ca_file.write_text(before.pem)
    certificate, key = before.issue(tmp_path, "me")
    names: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.append(writer.get_extra_info("peercert")["subject"][0][0][1])
        await saying(whole(b"{}"))(reader, writer)

    context = before.server_context(tmp_path)
    context.load_verify_locations(cadata=after.pem)
    files = ExtenderTLSConfig(ca_file=str(ca_file), cert_file=str(certificate), key_file=str(key))
    async with server(serve, context) as url:
        webhook = Webhook(Extender(url_prefix=SecretURL(url), enable_https=True, tls_config=files), "extenders[0]")
        try:
            await webhook.ask("filter", b"{}")
            context.load_cert_chain(*after.issue(tmp_path, "server"))
            ca_file.write_text(after.pem)
            for old, new in zip((certificate, key), after.issue(tmp_path, "my successor"), strict=True):
                old.write_bytes(new.read_bytes())
            await webhook.ask("filter", b"{}")
        finally:
            await webhook.close()
    assert names == ["me", "my successor"]


async def test_without_an_authority_https_is_not_verified_only_where_it_was_enabled(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue(tmp_path, "me")
    tls = ExtenderTLSConfig(cert_file=str(certificate), key_file=str(key))
    async with server(saying(whole(b"{}")), authority.server_context(tmp_path)) as url:
        assert await ask(url, enable_https=True, tls_config=tls) == b"{}"
        with pytest.raises(PluginError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(url, tls_config=tls)


async def test_a_server_of_another_authority_is_a_fault(tmp_path: Path) -> None:
    ca = base64.b64encode(Authority().pem.encode()).decode()
    async with server(saying(whole(b"{}")), Authority().server_context(tmp_path)) as url:
        with pytest.raises(PluginError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(url, enable_https=True, tls_config=ExtenderTLSConfig(ca_data=ca))


# --- what cannot work is refused when it is made -------------------------------------------------------------------


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://host", "http://"])
def test_a_url_without_scheme_or_host_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^extenders\[0\].urlPrefix: expected an http:// or https:// URL"):
        Webhook(Extender(url_prefix=SecretURL(url)), "extenders[0]")


TLS_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a file that is not there": ({"ca_file": "/nowhere"}, "tlsConfig.caFile"),
    "no base64": ({"ca_data": "%"}, "tlsConfig.caData: expected base64"),
    "no certificate": ({"ca_data": "eHg="}, "tlsConfig.caData: expected certificates"),
    "a key alone": ({"key_data": Secret("eHg=")}, "tlsConfig: expected a client certificate with its key"),
    "a pair that is none": ({"key_data": Secret("eHg="), "cert_data": "eHg="}, "tlsConfig: the client certificate"),
}


@pytest.mark.parametrize("what", TLS_FAULTS)
def test_tls_material_that_cannot_be_read_is_refused_with_its_field(what: str) -> None:
    fields, reported = TLS_FAULTS[what]
    config = Extender(url_prefix=SecretURL("https://host"), enable_https=True, tls_config=ExtenderTLSConfig(**fields))
    with pytest.raises(ConfigError) as caught:
        Webhook(config, "extenders[3]")
    assert str(caught.value).startswith(f"extenders[3].{reported}")
