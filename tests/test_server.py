"""The endpoints over a real socket: answers, refusals, limits, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from kscheduler.config import default_config, parse_config, to_v1
from kscheduler.errors import ConfigError, InternalError
from kscheduler.metrics import Metrics
from kscheduler.server import Listen, Server
from kscheduler.serving.authorization import ALLOWED, Decision
from kscheduler.serving.certificates import self_signed, server_context
from kscheduler.serving.health import Health


class OneToken:
    """Lets in the bearer of "good", knows nobody else."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str, str]] = []

    async def authorize(self, token: str | None, verb: str, path: str) -> Decision:
        self.asked.append((token, verb, path))
        if token is None:
            return Decision(403, f'forbidden: User "system:anonymous" cannot {verb} path "{path}"')
        return ALLOWED if token == "good" else Decision(401, "Unauthorized")


class Client:
    """Asks one server, and returns status, headers and text."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def get(self, path: str, token: str | None = "good", method: str = "GET", **kwargs: Any) -> tuple[int, str]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.session.request(method, self.base + path, headers=headers, **kwargs) as response:
            self.headers = response.headers
            return response.status, await response.text()


async def broken(request: web.Request) -> web.StreamResponse:
    raise RuntimeError("secret detail")


async def echo(request: web.Request) -> web.StreamResponse:
    return web.Response(text=await request.text())


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def authorizer() -> OneToken:
    return OneToken()


@pytest.fixture
def server(health: Health, authorizer: OneToken) -> Server:
    server = Server(
        Listen("127.0.0.1", 0),
        metrics=Metrics(process=False),
        health=health,
        config=lambda: {"componentconfig": to_v1(default_config())},
        authorizer=authorizer,
    )
    server.add_handler("/broken", broken)
    server.add_handler("/echo", echo, method="PUT")
    return server


@pytest_asyncio.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield Client(session, f"http://127.0.0.1:{server.port}")
    await server.stop()


async def test_health_needs_no_token(client: Client, authorizer: OneToken) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert await client.get(path, token=None) == (200, "ok")
    assert authorizer.asked == []
    assert client.headers["X-Content-Type-Options"] == "nosniff"


async def test_health_lists_its_checks_on_request(client: Client, health: Health) -> None:
    health.add("readyz", "shutdown", lambda: None)
    assert await client.get("/readyz?verbose") == (200, "[+]shutdown ok\nreadyz check passed\n")


async def test_a_failing_check_is_answered_with_500(client: Client, health: Health) -> None:
    health.add("readyz", "informer-sync", lambda: "pods are not listed yet")
    status, text = await client.get("/readyz", token=None)
    assert (status, text.splitlines()[0]) == (500, "[-]informer-sync failed: reason withheld")
    assert await client.get("/readyz?exclude=informer-sync", token=None) == (200, "ok")
    assert await client.get("/readyz/informer-sync") == (500, "internal server error: pods are not listed yet\n")
    assert await client.get("/healthz/ping") == (200, "ok")


async def test_a_single_check_is_not_among_the_free_paths(client: Client) -> None:
    assert (await client.get("/healthz/ping", token=None))[0] == 403


async def test_an_unknown_check_is_not_found(client: Client) -> None:
    status, text = await client.get("/healthz/absent")
    assert status == 404
    assert "there is no check 'absent' in healthz" in text


async def test_metrics_are_prometheus_text(client: Client) -> None:
    status, text = await client.get("/metrics")
    assert status == 200
    assert client.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE scheduler_preemption_attempts_total counter" in text


async def test_configz_shows_a_configuration_that_reads_back(client: Client) -> None:
    status, text = await client.get("/configz")
    assert status == 200
    component = json.loads(text)["componentconfig"]
    assert parse_config(json.dumps(component)) == default_config()


async def test_without_a_token_the_answer_is_a_forbidden_status(client: Client, authorizer: OneToken) -> None:
    status, text = await client.get("/metrics", token=None)
    assert status == 403
    assert '"reason": "Forbidden"' in text
    assert 'User \\"system:anonymous\\" cannot get path \\"/metrics\\"' in text
    assert authorizer.asked == [(None, "get", "/metrics")]


async def test_a_bad_token_is_unauthorized(client: Client) -> None:
    status, text = await client.get("/metrics", token="bad")
    assert status == 401
    assert client.headers["WWW-Authenticate"] == "Bearer"
    assert '"kind": "Status"' in text


@pytest.mark.parametrize(
    ("header", "token"), [("Bearer  good ", "good"), ("bearer good", "good"), ("Basic Z29vZA==", ""), ("good", "")]
)
async def test_only_a_bearer_header_carries_a_token(
    client: Client, authorizer: OneToken, header: str, token: str
) -> None:
    async with client.session.get(f"{client.base}/metrics", headers={"Authorization": header}):
        assert authorizer.asked[-1][0] == token


async def test_an_unknown_path_is_refused_before_it_is_not_found(client: Client) -> None:
    assert (await client.get("/absent", token=None))[0] == 403
    status, text = await client.get("/absent")
    assert status == 404
    assert '"reason": "NotFound"' in text


async def test_an_encoded_path_does_not_pass_the_authorizer(client: Client) -> None:
    for path in ("/%6detrics", "//metrics", "/healthz/../metrics", "/healthz%2f..%2fmetrics"):
        assert (await client.get(path, token=None))[0] in (403, 404)


async def test_another_method_is_not_allowed(client: Client, authorizer: OneToken) -> None:
    assert (await client.get("/metrics", method="POST"))[0] == 405
    assert authorizer.asked[-1][1] == "post"


async def test_a_handler_that_fails_is_answered_without_its_details(client: Client) -> None:
    status, text = await client.get("/broken")
    assert status == 500
    assert "secret" not in text


async def test_a_registered_handler_reads_a_body_within_the_limit(client: Client) -> None:
    assert await client.get("/echo", method="PUT", data="x" * 1000) == (200, "x" * 1000)
    assert (await client.get("/echo", method="PUT", data="x" * 100_000))[0] == 413


async def test_a_star_frees_all_paths_that_begin_so(health: Health) -> None:
    server = Server(
        Listen("127.0.0.1", 0),
        metrics=Metrics(process=False),
        health=health,
        authorizer=OneToken(),
        always_allow=["/healthz*"],
    )
    await server.start()
    async with aiohttp.ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{server.port}")
        assert (await client.get("/healthz/ping", token=None))[0] == 200
        assert (await client.get("/livez", token=None))[0] == 403
    await server.stop()


async def test_https_with_a_certificate_made_here(health: Health) -> None:
    server = Server(Listen("127.0.0.1", 0, server_context()), metrics=Metrics(process=False), health=health)
    await server.start()
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        client = Client(session, f"https://127.0.0.1:{server.port}")
        assert await client.get("/healthz", token=None) == (200, "ok")
    await server.stop()


async def test_a_renewed_certificate_is_served_to_the_next_connection(
    health: Health, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kscheduler.server.RELOAD_S", 0.0)
    tls = server_context(cert_dir=str(tmp_path))
    server = Server(Listen("127.0.0.1", 0, tls), metrics=Metrics(process=False), health=health)
    await server.start()
    old = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port))
    pair = self_signed()
    (tmp_path / "kube-scheduler.crt").write_bytes(pair.certificate)
    (tmp_path / "kube-scheduler.key").write_bytes(pair.key)
    new = old
    while new == old:  # each connection lets the server's own task run
        new = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.port))
    await server.stop()
    assert new.strip() == pair.certificate.decode().strip()


async def test_nothing_listens_after_stop(server: Server) -> None:
    await server.start()
    port = server.port
    await server.stop()
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_an_idle_connection_does_not_hold_up_stop(server: Server) -> None:
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await asyncio.wait_for(server.stop(), 1.0)
    writer.close()


async def test_a_client_that_never_ends_its_request_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.serving.idle.SWEEP_S", 0.0)
    monkeypatch.setattr(server._listener.idle, "_limit_s", 0.0)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
        answer = await reader.read()  # ends only when the server closes
    assert answer == b""
    writer.close()
    await server.stop()


async def test_a_taken_port_is_refused_with_the_flags_that_name_it(health: Health) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = Server(Listen("127.0.0.1", port), metrics=Metrics(process=False), health=health)
        with pytest.raises(ConfigError, match=rf"^--bind-address 127\.0\.0\.1, --secure-port {port}: cannot listen: "):
            await server.start()


async def test_the_port_is_known_only_while_listening(server: Server) -> None:
    with pytest.raises(InternalError, match="not listening"):
        _ = server.port
